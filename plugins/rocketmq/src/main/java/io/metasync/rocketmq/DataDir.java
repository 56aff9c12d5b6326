package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.text.SimpleDateFormat;
import java.util.Date;

/** The node's data directory, as far as the plugin looks after it, and what the plugin remembers in it over a restart. */
final class DataDir {
    private static final String FILE = "role"; /* "leader 3", "follower 3": the last role, the highest reign */

    /** No data was lost. */
    static final long NONE = -1;

    private final File dir;
    private long lostReign = NONE;
    private String written = "";

    DataDir(String dir) {
        this.dir = new File(dir);
    }

    /** The highest reign that was in a directory which was moved aside, 0 if it did not say; {@link #NONE}: none was. */
    long lostReign() {
        return lostReign;
    }

    /** The new directory has a reign above that. */
    void recovered() {
        lostReign = NONE;
    }

    boolean followedLast() {
        return remembered()[0].equals("follower");
    }

    private String[] remembered() {
        try {
            return new String(Files.readAllBytes(new File(dir, FILE).toPath()), StandardCharsets.UTF_8).trim().split(" ");
        } catch (IOException e) {
            return new String[] {""};
        }
    }

    private long lastReign() {
        try {
            String[] words = remembered();
            return words.length > 1 ? Long.parseLong(words[1]) : 0;
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    void remember(String role, long reign) throws IOException {
        String line = role + " " + Math.max(lastReign(), reign) + "\n";
        if (line.equals(written)) {
            return;
        }
        File temporary = new File(dir, FILE + ".new");
        Files.write(temporary.toPath(), line.getBytes(StandardCharsets.UTF_8));
        Files.move(temporary.toPath(), new File(dir, FILE).toPath(), StandardCopyOption.ATOMIC_MOVE);
        written = line;
    }

    /** Nothing is removed: an operator may want to look at it. */
    void moveAside(String why) throws IOException {
        File aside = new File(dir.getPath() + ".aside-" + new SimpleDateFormat("yyyyMMdd-HHmmss-SSS").format(new Date()));
        lostReign = Math.max(lostReign, lastReign());
        Files.move(dir.toPath(), aside.toPath(), StandardCopyOption.ATOMIC_MOVE);
        written = "";
        Log.error("its data can't be used and was moved to " + aside + ", it starts anew: " + why);
    }
}
