package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.text.SimpleDateFormat;
import java.util.Collections;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The node's data directory, as far as the plugin looks after it, and what the plugin remembers in it over a restart. */
final class DataDir {
    private static final String FILE = "role"; /* "leader 3", "follower 3": the last role, the highest reign */

    /** The tables that the broker was filling the log with: the file is there until they are whole. Its first line is FIRST if there were no others. */
    private static final String FILLING = "filling";
    private static final String FIRST = "first";

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

    // ---- the first fill ----------------------------------------------------------------------------------------------------------------

    /** The tables that are to be filled from now on; on disk before the first of their entries is in the log. */
    void fills(Set<String> tables, boolean first) throws IOException {
        if (tables.isEmpty()) {
            return;
        }
        String text = (first ? FIRST : "") + "\n" + String.join("\n", tables) + "\n";
        Path path = new File(dir, FILLING).toPath();
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            for (ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)); bytes.hasRemaining();) {
                file.write(bytes);
            }
            file.force(true);
        }
        try (FileChannel folder = FileChannel.open(dir.toPath(), StandardOpenOption.READ)) {
            folder.force(true);
        }
    }

    /** They are whole, on disk. */
    void filled() throws IOException {
        Files.deleteIfExists(new File(dir, FILLING).toPath());
    }

    /** Tables of which the log has only the beginning: the broker ended while it filled them. */
    Set<String> unfinished() throws IOException {
        Set<String> tables = new HashSet<>(filling());
        tables.remove(FIRST);
        tables.remove("");
        return tables;
    }

    private List<String> filling() throws IOException {
        File file = new File(dir, FILLING);
        return file.exists() ? Files.readAllLines(file.toPath(), StandardCharsets.UTF_8) : Collections.emptyList();
    }

    /**
     * Whether all that the log has is the beginnings of tables. Nobody has followed it then, and a node that is to follow with it would take them
     * for all that there is.
     */
    boolean hasBeginnings() throws IOException {
        return filling().indexOf(FIRST) == 0;
    }

    /** The node is to be opened anew afterwards. */
    void dropBeginnings() throws IOException {
        Log.warn("this broker did not come to the end of filling its log for the first time; that was moved to " + aside() + ", its node begins anew");
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
        lostReign = Math.max(lostReign, lastReign());
        Log.error("its data can't be used and was moved to " + aside() + ", it starts anew: " + why);
    }

    private File aside() throws IOException {
        File aside = new File(dir.getPath() + ".aside-" + new SimpleDateFormat("yyyyMMdd-HHmmss-SSS").format(new Date()));
        Files.move(dir.toPath(), aside.toPath(), StandardCopyOption.ATOMIC_MOVE);
        written = "";
        return aside;
    }
}
