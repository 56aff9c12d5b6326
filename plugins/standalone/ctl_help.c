#include "ctl_help.h"

#include <stddef.h>
#include <string.h>

const char ctl_help_general[] =
    "metasyncctl: talks to a metasync node of this machine, or asks nodes over the network\n"
    "\n"
    "usage: metasyncctl [--data DIR | --control PATH] [--json] COMMAND ...\n"
    "\n"
    "Which node: --data DIR is the node's data directory (its socket is DIR/control.sock), --control PATH the socket itself.\n"
    "\n"
    "look\n"
    "  status                            role, positions, lag, tables, peers, alarm of the node\n"
    "  status HOST:PORT...               the same of nodes anywhere, one after another; a node that is down is shown as such\n"
    "  ls [TABLE [--prefix P] [--limit N]]    tables, or entries of one\n"
    "  get TABLE KEY [FIELD]             one value\n"
    "  applied LSN                       when this node applied the change\n"
    "  log PATH [--from N]               records of a data directory, a log segment or a snapshot, without a node\n"
    "change (on the leader)\n"
    "  put TABLE KEY [FIELD] VALUE       put one entry (--type int64|bytes makes a table that is missing)\n"
    "  put --batch FILE                  put and delete many: JSON lines, - is standard input\n"
    "  delete TABLE KEY [FIELD]          delete one entry\n"
    "  flush [TABLE]                     log what buffered tables hold\n"
    "  wait LSN LEVEL                    until the change reached memory, os, disk or replica\n"
    "  import DIR [--force]              read a RocketMQ store/config directory (the node reads it)\n"
    "  export DIR                        write the tables as such files (any role)\n"
    "operate\n"
    "  lead [--peer HOST:PORT]...        become leader, unless a peer knows a higher epoch\n"
    "  follow HOST:PORT                  become a follower\n"
    "  promote [--force]                 become leader of a new reign: fail-over\n"
    "  adopt                             take the leader's history although it has less than this node\n"
    "  snapshot                          make a snapshot now\n"
    "\n"
    "  --json         print the node's JSON reply as it is (one line; also of a failure)\n"
    "  --timeout MS   wait at most so long for the node (lead, promote, snapshot, wait: for the result)\n"
    "  COMMAND --help says more, with examples. -- ends the options: what follows may begin with --.\n"
    "\n"
    "exit status\n"
    "  0  done\n"
    "  1  the node refused, or something failed; nothing was changed\n"
    "  2  wrong usage\n"
    "  3  the node cannot be reached, or does not answer\n"
    "  4  no such table, entry or position\n"
    "  5  not confirmed: the change stands but did not reach its level, or its outcome is unknown, or time ran out\n"
    "\n"
    "examples\n"
    "  metasyncctl --data /var/lib/ms1 status\n"
    "  metasyncctl status 10.0.0.1:7701 10.0.0.2:7702 --cluster prod --secret-file /etc/metasync.secret\n"
    "  metasyncctl --data /var/lib/ms1 put topic orders '{\"perm\":6,\"readQueueNums\":8}'\n"
    "  metasyncctl --data /var/lib/ms2 promote && echo the follower leads now\n";

static const struct {
    const char *command, *text;
} helps[] = {
    {"status",
     "usage: metasyncctl [--data DIR | --control PATH] status\n"
     "       metasyncctl status HOST:PORT... [--cluster NAME] [--secret-file FILE]\n"
     "\n"
     "Without addresses: the node behind the control socket. With addresses: those nodes, over the network, one after another; a node that\n"
     "can't be reached is shown as DOWN, and the exit status is 3. Nodes that say the same position of the same history are compared.\n"
     "The cluster is \"default\" unless named; addresses that are not loopback need the cluster's secret.\n"
     "\n"
     "  role       leader, follower, idle, asking (its peers), opening (a new epoch); and why\n"
     "  epoch      reign counts promotions, run counts starts as leader\n"
     "  position   the last change in the tables; the lag is what the leader has and this node has not applied\n"
     "  failover   whether a promotion of this follower would lose anything that it knows of\n"
     "  AT RISK    changed entries of a buffered table that no flush has logged yet\n"
     "  DIGEST     equal positions mean equal digests on all nodes\n"
     "\n"
     "examples: metasyncctl --data /var/lib/ms1 status\n"
     "          metasyncctl status 127.0.0.1:7701 127.0.0.1:7702\n"
     "          metasyncctl --json --data /var/lib/ms2 status | jq .following.lag\n"},
    {"ls",
     "usage: metasyncctl ls [TABLE [--prefix P] [--limit N]]\n"
     "\n"
     "Without TABLE: the tables, with type and number of entries. With it: its entries, at most N (1000), in no particular order.\n"
     "P is compared with the beginning of the whole key; a key and its field are shown in two columns.\n"
     "\n"
     "examples: metasyncctl --data /var/lib/ms1 ls\n"
     "          metasyncctl --data /var/lib/ms1 ls offset --prefix orders@ --limit 20\n"},
    {"get",
     "usage: metasyncctl get TABLE KEY [FIELD]\n"
     "\n"
     "Prints the value (on any node; a follower answers from its own tables). Exit status 4 if there is none.\n"
     "\n"
     "examples: metasyncctl --data /var/lib/ms1 get topic orders\n"
     "          metasyncctl --data /var/lib/ms1 get offset orders@billing 3\n"},
    {"put",
     "usage: metasyncctl put TABLE KEY [FIELD] VALUE [--type int64|bytes]\n"
     "       metasyncctl put --batch FILE\n"
     "\n"
     "Puts one entry on the leader and waits for the table's level, then prints the change's position. An entry's key is KEY, or KEY\n"
     "and FIELD. A table that does not exist is made, with the type that --type says (bytes). Values of int64 tables are whole numbers.\n"
     "\n"
     "--batch reads one change a line, from a file or (-) standard input:\n"
     "  {\"table\":\"topic\",\"key\":\"orders\",\"value\":\"{\\\"perm\\\":6}\"}\n"
     "  {\"table\":\"offset\",\"key\":\"orders@billing\",\"field\":3,\"value\":1200}\n"
     "  {\"table\":\"topic\",\"key\":\"old\"}                                         no value: a delete\n"
     "Keys and values that are not UTF-8 are {\"base64\":\"...\"}. An integer makes a missing table int64, \"type\" says it explicitly.\n"
     "Lines are sent in batches (at most 2000 lines or 128 KiB), each all or nothing, in order.\n"
     "\n"
     "examples: metasyncctl --data /var/lib/ms1 put topic orders '{\"perm\":6}'\n"
     "          metasyncctl --data /var/lib/ms1 put offset orders@billing 3 1200 --type int64\n"
     "          zcat changes.gz | metasyncctl --data /var/lib/ms1 put --batch -\n"},
    {"delete",
     "usage: metasyncctl delete TABLE KEY [FIELD]\n"
     "\n"
     "Deletes one entry on the leader and waits for the table's level. Deleting what does not exist changes nothing and is no failure.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms1 delete topic orders\n"},
    {"flush",
     "usage: metasyncctl flush [TABLE]\n"
     "\n"
     "Logs what the buffer of the table (of all tables) holds now, and prints the position; `wait` says when it is safe.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms1 flush\n"},
    {"wait",
     "usage: metasyncctl wait LSN LEVEL [--timeout MS]\n"
     "\n"
     "Waits until the change at position LSN reached the level: memory, os, disk, replica. Exit status 5 if it does not in time (30 s),\n"
     "or if no follower is left that could confirm it.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms1 wait 1234 replica --timeout 5000\n"},
    {"applied",
     "usage: metasyncctl applied LSN\n"
     "\n"
     "When this node applied the change, by its own clock. Exit status 4 if that is no longer remembered (the last few thousand groups\n"
     "are), 1 if it has not been applied yet. On a follower, minus the leader's \"at_us\" of the change: how long it took.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms2 applied 1234\n"},
    {"snapshot",
     "usage: metasyncctl snapshot [--timeout MS]\n"
     "\n"
     "Makes a snapshot and returns when it is on disk: before a long stop, or before copying the data directory.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms1 snapshot\n"},
    {"lead",
     "usage: metasyncctl lead [--peer HOST:PORT]... [--timeout MS]\n"
     "\n"
     "Asks the peers whether one knows a higher epoch (then it is refused: follow that one), opens a new epoch and leads. For the node\n"
     "that led last. To make a follower the leader use promote.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms1 lead --peer 10.0.0.2:7702\n"},
    {"follow",
     "usage: metasyncctl follow HOST:PORT\n"
     "\n"
     "Becomes a follower of that node, now and through reconnects; a leader steps down first. What only this node has is archived\n"
     "below its data directory if the new leader's history lacks it.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms1 follow 10.0.0.2:7702\n"},
    {"promote",
     "usage: metasyncctl promote [--force] [--timeout MS]\n"
     "\n"
     "Fail-over: this follower becomes leader of a new reign; an old leader that comes back will find out and must follow. Look at\n"
     "\"failover\" in its status first. --force also promotes a node whose bootstrap was not finished: it has old or damaged tables.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms2 promote\n"},
    {"adopt",
     "usage: metasyncctl adopt\n"
     "\n"
     "A follower whose leader has less history than itself (state leader_has_less_history) keeps its tables and waits: such a leader was\n"
     "probably wiped or restored from an old copy. adopt says that the leader is right all the same: the follower archives its own\n"
     "records and takes the leader's tables. If the follower is right, promote it instead.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms2 adopt\n"},
    {"import",
     "usage: metasyncctl import DIR [--force]\n"
     "\n"
     "The leader reads topics.json, subscriptionGroup.json, consumerOffset.json and delayOffset.json of DIR (a RocketMQ store/config\n"
     "directory; DIR is a path as the node sees it) and changes what differs from its last import. A damaged file's .bak is used\n"
     "instead; if that is damaged too nothing is imported. A file with an older data version is skipped, and what would have\n"
     "changed is listed; --force imports it all the same.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms1 import /opt/rocketmq/store/config\n"},
    {"export",
     "usage: metasyncctl export DIR\n"
     "\n"
     "The node (in any role) writes its tables to DIR as the four RocketMQ files, each replaced as a whole; the one before becomes .bak.\n"
     "\n"
     "example: metasyncctl --data /var/lib/ms2 export /backup/config\n"},
    {"log",
     "usage: metasyncctl log PATH [--from N]\n"
     "\n"
     "Prints the records of a change log or snapshot, from position N on. PATH is a data directory (what is live in it), a segment or a\n"
     "snapshot; no node is asked, so it works on a stopped node, and on one that runs. With --json one object a line.\n"
     "\n"
     "examples: metasyncctl log /var/lib/ms1 --from 1200\n"
     "          metasyncctl --json log /var/lib/ms1 | jq -r 'select(.op==\"delete\").key'\n"},
};

const char *ctl_help_of(const char *command)
{
    for (size_t i = 0; i < sizeof helps / sizeof *helps; i++)
        if (strcmp(helps[i].command, command) == 0) return helps[i].text;
    return NULL;
}
