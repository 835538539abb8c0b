//go:build upgrade

package upgrade_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

var errStillThere = errors.New("it is still there")

// TestSkew_AgentsAndClients: agents and nstance-admin of one release with servers of the other, in
// both directions. The group lives through a change of its size, a replacement, the deletion of a
// machine, an on-demand machine, and a group of its own that is made and deleted.
func TestSkew_AgentsAndClients(t *testing.T) {
	for _, c := range []struct {
		name                   string
		agents, server, client func(*testing.T) string // where programs come from; empty: this tree
	}{
		{"old agents and clients, new server", earlierPrograms, thisTree, earlierPrograms},
		{"new agents and clients, old server", thisTree, earlierPrograms, thisTree},
	} {
		t.Run(c.name, func(t *testing.T) {
			const size = 2
			b := fleet(t, size) // its configuration is one that both releases know
			b.SetConfig(withAgent(t, b.Config(), c.agents(t)))
			before := b.Machines()

			b.From(c.server(t))
			started := time.Now()
			b.Serve("server")
			b.Await("the agents report to the server of the other release", func() error { return b.Settled(group, size, started) })
			unharmed(t, b, before)

			b.From(c.client(t))
			stories(t, b, size)
		})
	}
}

// withAgent has the machines that a server makes run the agent of a release, which registers there.
func withAgent(t *testing.T, config, dir string) string {
	t.Helper()
	if dir == "" {
		dir = programs
	}
	agent, err := filepath.Abs(filepath.Join(dir, "nstance-agent"))
	if err != nil {
		t.Fatal(err)
	}
	const options = `"options": {`
	if strings.Count(config, options) != 1 {
		t.Fatalf("the configuration has no %s", options)
	}
	return strings.Replace(config, options, options+`"agent": `+strconv.Quote(agent)+", ", 1)
}

// thisTree is where the programs of this tree are.
func thisTree(*testing.T) string { return "" }

// stories has the present nstance-admin do everything that both releases know.
func stories(t *testing.T, b *box.Box, size int) {
	t.Helper()
	settled := func(n int) {
		t.Helper()
		b.Await(strconv.Itoa(n)+" machines run", func() error { return b.Settled(group, n, time.Time{}) })
	}
	b.AdminOK("group", "scale", group, strconv.Itoa(size+1))
	settled(size + 1)

	old := b.RecordIDs()[0]
	b.AdminOK("instance", "delete", old)
	b.Await("the machine is replaced", func() error {
		if err := b.Settled(group, size+1, time.Time{}); err != nil {
			return err
		}
		for _, id := range b.RecordIDs() {
			if id == old {
				return errStillThere
			}
		}
		return nil
	})

	b.AdminOK("group", "scale", group, strconv.Itoa(size))
	settled(size)

	made := b.AdminOK("instance", "create", "--group", group)
	if !strings.Contains(made.Out, "pending") {
		t.Errorf("instance create says %q", made.Out)
	}
	id := strings.TrimSuffix(strings.Fields(made.Out)[1], ":")
	b.Await("the on-demand machine runs", func() error {
		if n := len(b.AdminList("instance", "list")); n != size+1 {
			return fmt.Errorf("%d instances", n)
		}
		return nil
	})
	b.AdminOK("instance", "drained", id)
	b.Await("the on-demand machine is deleted", func() error {
		if n := len(b.AdminList("instance", "list")); n != size {
			return fmt.Errorf("%d instances", n)
		}
		return nil
	})
}
