package io.metasync.rocketmq;

import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** Fields and methods that the broker keeps to itself, or that only some of its versions have. */
final class Reflect {
    private Reflect() {
    }

    /** The field of the object's class or of one above it; null if there is none. */
    static Field field(Object object, String name) {
        for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field;
            } catch (NoSuchFieldException e) {
                continue;
            }
        }
        return null;
    }

    /** Throws if there is no such field: this broker is of a version that we don't know. */
    static Object get(Object object, String name) {
        Field field = field(object, name);
        if (field == null) {
            throw new IllegalStateException(object.getClass().getName() + " has no field " + name);
        }
        try {
            return field.get(object);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(object.getClass().getName() + "." + name + " can't be read", e);
        }
    }

    /** Final fields too (not static ones). Throws as {@link #get}. */
    static void set(Object object, String name, Object value) {
        Field field = field(object, name);
        if (field == null) {
            throw new IllegalStateException(object.getClass().getName() + " has no field " + name);
        }
        try {
            field.set(object, value);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(object.getClass().getName() + "." + name + " can't be set", e);
        }
    }

    static boolean hasMethod(Object object, String name) {
        for (Method method : object.getClass().getMethods()) {
            if (method.getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    /** A method without arguments, or null if the object has none of that name. */
    static Object callIfThere(Object object, String name) {
        try {
            Method method = object.getClass().getMethod(name);
            return method.invoke(object);
        } catch (NoSuchMethodException e) {
            return null;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(object.getClass().getName() + "." + name + " failed", e);
        }
    }

    /** Calls a method with one text, public or not, if the object has it: what a manager that keeps its entries elsewhere too has to do. */
    static void callIfThere(Object object, String name, String text) {
        for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Method method = type.getDeclaredMethod(name, String.class);
                method.setAccessible(true);
                method.invoke(object, text);
                return;
            } catch (NoSuchMethodException e) {
                continue;
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(object.getClass().getName() + "." + name + " failed for " + text, e);
            }
        }
    }
}
