package handback

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Connection is one that no process has any more, while the kernel still has data of it to
// send.
type Connection struct {
	LocalPort, PeerPort uint16
}

// States of the kernel's table in which a connection that its process has closed may have
// data that its peer has not confirmed.
var closing = map[string]bool{"04": true, "09": true, "0B": true} // FIN-WAIT-1, LAST-ACK, CLOSING

// columns of a line of /proc/net/tcp, of those that are read.
const (
	columnLocal  = 1
	columnPeer   = 2
	columnState  = 3
	columnQueues = 4
	columnInode  = 9
)

// readConnections reads a table in the form of /proc/net/tcp, and returns the
// connections without a process that have something to send.
func readConnections(table io.Reader) ([]Connection, error) {
	var all []Connection
	lines := bufio.NewScanner(table)
	lines.Scan() // names of the columns
	for n := 2; lines.Scan(); n++ {
		c, unsent, err := readConnection(strings.Fields(lines.Text()))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if unsent {
			all = append(all, c)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read table of connections: %w", err)
	}
	return all, nil
}

func readConnection(columns []string) (c Connection, unsent bool, err error) {
	if len(columns) <= columnInode {
		return Connection{}, false, fmt.Errorf("it has %d columns, and the inode is column %d", len(columns), columnInode+1)
	}
	if columns[columnInode] != "0" || !closing[columns[columnState]] {
		return Connection{}, false, nil
	}
	queued, _, _ := strings.Cut(columns[columnQueues], ":")
	waiting, err := strconv.ParseUint(queued, 16, 64)
	if err != nil {
		return Connection{}, false, fmt.Errorf("its queue to send is %q, not a number", queued)
	}
	if c.LocalPort, err = portOf(columns[columnLocal]); err != nil {
		return Connection{}, false, err
	}
	if c.PeerPort, err = portOf(columns[columnPeer]); err != nil {
		return Connection{}, false, err
	}
	return c, waiting > 0, nil
}

func portOf(address string) (uint16, error) {
	_, port, _ := strings.Cut(address, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return 0, fmt.Errorf("its address %q has no port", address)
	}
	return uint16(n), nil
}

// Unsent returns the connections of this machine that no process has any more and that
// still have data to send. Those on the ports at which servers listen do not count:
// nothing that a leader writes or creates goes out there. Whose the others were the
// kernel does not say, so all of them count.
func Unsent(listening []uint16) ([]Connection, error) {
	var all []Connection
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		some, err := readTable(name)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return except(all, listening), nil
}

func readTable(name string) (all []Connection, err error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(name, "6") {
		return nil, nil // a kernel without IPv6
	}
	if err != nil {
		return nil, fmt.Errorf("find the connections of the ended process: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if all, err = readConnections(file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

func except(all []Connection, listening []uint16) []Connection {
	return slices.DeleteFunc(all, func(c Connection) bool { return slices.Contains(listening, c.LocalPort) })
}

// lookEvery is how often the kernel is asked again.
const lookEvery = 10 * time.Millisecond

// Await waits until nothing is unsent, for at most limit. Where something still is, or
// that can't be found out, it says so in an error.
func Await(ctx context.Context, limit time.Duration, unsent func() ([]Connection, error)) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		rest, err := unsent()
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			return nil
		}
		select {
		case <-time.After(lookEvery):
		case <-end.C:
			return fmt.Errorf("%d closed connections of this machine still have data to send after %v, the first from port %d to port %d",
				len(rest), limit, rest[0].LocalPort, rest[0].PeerPort)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
