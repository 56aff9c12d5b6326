package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
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
     * Replaces the file by head, the table's entries as members of an object, and tail. The file before becomes its .bak, as with the broker,
     * which takes that if it finds no other one.
     *
     * @param count how many entries there have to be
     * @return false: there are more or fewer, a key is not to be written as it is, or the disk does not take it; the file is as it was
     */
    static boolean replace(File file, byte[] head, MetaTable table, int count, byte[] tail) throws IOException {
        Path path = file.toPath();
        Path made = path.resolveSibling(file.getName() + ".metasync");
        if (table.writeMembers(Bytes.utf8(made.toString()), head, tail) != count) {
            Files.deleteIfExists(made);
            return false;
        }
        if (file.exists()) {
            Files.move(path, path.resolveSibling(file.getName() + ".bak"), StandardCopyOption.REPLACE_EXISTING);
        }
        Files.move(made, path, StandardCopyOption.REPLACE_EXISTING);
        return true;
    }
}
