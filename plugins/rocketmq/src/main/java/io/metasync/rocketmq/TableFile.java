package io.metasync.rocketmq;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * A file of the broker, made of values that are the JSON in it already. The broker makes all of them anew to write it, which for ten
 * thousand topics takes a hundred times what the change of one takes otherwise.
 */
final class TableFile {
    private TableFile() {
    }

    /**
     * The JSON text: head, then the entries as the members of an object, then tail.
     *
     * @param entries as {@link MetaTable#entries} has them
     * @param count how many there have to be
     * @return null if there are more or fewer, or a key is not to be written as it is
     */
    static ByteBuffer compose(byte[] head, ByteBuffer entries, int count, byte[] tail) {
        byte[] from = entries.array();
        byte[] text = new byte[head.length + from.length + tail.length]; /* two sizes take more than quotes, colon and comma */
        int size = append(text, 0, head, 0, head.length);
        int found = 0;
        for (; entries.hasRemaining(); found++) {
            int keySize = entries.getInt();
            int valueSize = entries.getInt();
            int at = entries.position();
            if (!isPlain(from, at, keySize)) {
                return null;
            }
            if (found > 0) {
                text[size++] = ',';
            }
            text[size++] = '"';
            size = append(text, size, from, at, keySize);
            text[size++] = '"';
            text[size++] = ':';
            size = append(text, size, from, at + keySize, valueSize);
            entries.position(at + keySize + valueSize);
        }
        return found == count ? ByteBuffer.wrap(text, 0, append(text, size, tail, 0, tail.length)) : null;
    }

    private static int append(byte[] text, int size, byte[] from, int at, int length) {
        System.arraycopy(from, at, text, size, length);
        return size + length;
    }

    /** Whether a string of JSON is just these bytes in quotes. */
    private static boolean isPlain(byte[] from, int at, int size) {
        for (int i = at; i < at + size; i++) {
            if ((from[i] >= 0 && from[i] < ' ') || from[i] == '"' || from[i] == '\\') {
                return false;
            }
        }
        return true;
    }

    /** The file before becomes its .bak, as with the broker, which takes that if it finds no other one. */
    static void replace(File file, ByteBuffer text) throws IOException {
        Path path = file.toPath();
        Path made = path.resolveSibling(file.getName() + ".metasync");
        try (OutputStream out = new FileOutputStream(made.toFile())) {
            out.write(text.array(), 0, text.limit());
        }
        if (file.exists()) {
            Files.move(path, path.resolveSibling(file.getName() + ".bak"), StandardCopyOption.REPLACE_EXISTING);
        }
        Files.move(made, path, StandardCopyOption.REPLACE_EXISTING);
    }
}
