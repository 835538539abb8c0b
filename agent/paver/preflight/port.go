package preflight

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// portHolder says who listens on a TCP port and is not in a node machine of this host; empty:
// nobody.
func (p Prober) portHolder(port int) (string, error) {
	sockets := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		if err := p.listeners(table, port, sockets); err != nil {
			return "", err
		}
	}
	if len(sockets) == 0 {
		return "", nil
	}
	pids, err := p.processes()
	if err != nil {
		return "", err
	}
	ours := false
	for _, pid := range pids {
		if !p.holds(pid, sockets) {
			continue
		}
		if p.own(pid) {
			ours = true
			continue
		}
		name, err := p.name(pid)
		if err != nil {
			continue // it has ended
		}
		return fmt.Sprintf("%s (process %d)", name, pid), nil
	}
	if ours {
		return "", nil
	}
	return "an unknown process", nil
}

const listening = "0A"

// listeners adds the sockets of a table that listen on a port, as links in /proc have them.
func (p Prober) listeners(table string, port int, sockets map[string]bool) error {
	f, err := os.Open(p.proc("net", table))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without IPv6
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
			sockets["socket:["+fields[9]+"]"] = true
		}
	}
	return lines.Err()
}

// holds says whether a process has one of the sockets open.
func (p Prober) holds(pid int, sockets map[string]bool) bool {
	dir := p.proc(strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	for _, e := range entries {
		if target, err := os.Readlink(dir + "/" + e.Name()); err == nil && sockets[target] {
			return true
		}
	}
	return false
}
