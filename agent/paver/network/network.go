// Package network finds what Pods have left behind in the network of a host.
//
// A node machine has the host's network, so what its network plug-in and kube-proxy make there
// outlives it. Before the first boot the caller records what the host has, with [Read]. At each
// switch it asks [Leftovers] for what came since and has the name of something that such programs
// make, and removes that with [Remove]. The host's firewall is never flushed: what was there
// before, and what is called otherwise, is left alone.
package network

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// State is what a host's network has.
type State struct {
	// Unknown: it could not be read, so nothing can be said to have come since.
	Unknown bool     `json:"unknown,omitempty"`
	Links   []string `json:"links,omitempty"`  // names of interfaces
	Tables  []Table  `json:"tables,omitempty"` // of nftables
	Chains  []Chain  `json:"chains,omitempty"`
	// Jumps are the rules that end in another chain; a chain can be deleted only without them.
	// They are not recorded.
	Jumps []Jump `json:"-"`
	// Rules of routing that name an interface.
	Rules []Rule `json:"rules,omitempty"`
	// Legacy is what iptables has beside nftables.
	Legacy Legacy `json:"legacy,omitzero"`
}

// Table is a table of nftables.
type Table struct {
	Family string `json:"family"`
	Name   string `json:"name"`
}

// Chain is a chain of a table.
type Chain struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Name   string `json:"name"`
}

// Jump is a rule of a chain that ends in another one.
type Jump struct {
	Family, Table, Chain, Target string
	Handle                       int64
}

// Rule is a rule of routing for packets that come in or go out at an interface.
type Rule struct {
	Priority int    `json:"priority"`
	In       string `json:"in,omitempty"`
	Out      string `json:"out,omitempty"`
	Table    string `json:"table,omitempty"`
	IPv6     bool   `json:"ipv6,omitempty"`
}

// What programs of a node call what they make.
var (
	linkPatterns  = []string{"cni*", "veth*", "cali*", "cilium_*", "flannel*", "vxlan*", "geneve*", "wg*"}
	tablePatterns = []string{"kube-*"}
	chainPatterns = []string{"KUBE-*", "CNI-*"}
)

func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// Command is one call of a program that removes something.
type Command []string

// String is the command as it would be typed.
func (c Command) String() string { return strings.Join(c, " ") }

// Leftovers returns the commands that remove what came since before was read and has a name of
// something that Pods leave, in an order in which each can succeed. Equal arguments give equal
// commands.
func Leftovers(before, now State) []Command {
	if before.Unknown {
		return nil
	}
	var commands []Command
	gone := func(c Chain) bool {
		return matches(c.Name, chainPatterns) && !slices.Contains(before.Chains, c)
	}
	for _, table := range sorted(now.Tables, Table.key) {
		if matches(table.Name, tablePatterns) && !slices.Contains(before.Tables, table) {
			commands = append(commands, Command{"nft", "delete", "table", table.Family, table.Name})
		}
	}
	within := func(family, table string) bool { // it goes with its table
		t := Table{family, table}
		return matches(table, tablePatterns) && !slices.Contains(before.Tables, t)
	}
	for _, j := range sorted(now.Jumps, Jump.key) {
		if !within(j.Family, j.Table) && gone(Chain{j.Family, j.Table, j.Target}) && !gone(Chain{j.Family, j.Table, j.Chain}) {
			commands = append(commands, Command{"nft", "delete", "rule", j.Family, j.Table, j.Chain, "handle", strconv.FormatInt(j.Handle, 10)})
		}
	}
	var chains []Chain
	for _, c := range sorted(now.Chains, Chain.key) {
		if gone(c) && !within(c.Family, c.Table) {
			chains = append(chains, c)
		}
	}
	for _, c := range chains { // they may jump to each other
		commands = append(commands, Command{"nft", "flush", "chain", c.Family, c.Table, c.Name})
	}
	for _, c := range chains {
		commands = append(commands, Command{"nft", "delete", "chain", c.Family, c.Table, c.Name})
	}
	commands = append(commands, legacyLeftovers(before.Legacy, now.Legacy)...)
	commands = append(commands, rules(before, now)...)
	for _, link := range slices.Sorted(slices.Values(now.Links)) {
		if matches(link, linkPatterns) && !slices.Contains(before.Links, link) {
			commands = append(commands, Command{"ip", "link", "delete", "dev", link})
		}
	}
	return commands
}

func rules(before, now State) (commands []Command) {
	for _, r := range sorted(now.Rules, Rule.key) {
		if slices.Contains(before.Rules, r) || !matches(r.In, linkPatterns) && !matches(r.Out, linkPatterns) {
			continue
		}
		family := "-4"
		if r.IPv6 {
			family = "-6"
		}
		c := Command{"ip", family, "rule", "delete", "priority", strconv.Itoa(r.Priority)}
		for _, option := range [][2]string{{"iif", r.In}, {"oif", r.Out}, {"lookup", r.Table}} {
			if option[1] != "" {
				c = append(c, option[0], option[1])
			}
		}
		commands = append(commands, c)
	}
	return commands
}

func sorted[T any](list []T, key func(T) string) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return list
}

func (t Table) key() string { return t.Family + " " + t.Name }
func (c Chain) key() string { return c.Family + " " + c.Table + " " + c.Name }
func (j Jump) key() string {
	return fmt.Sprintf("%s %s %s %020d", j.Family, j.Table, j.Chain, j.Handle)
}
func (r Rule) key() string { return fmt.Sprintf("%t %010d %s %s", r.IPv6, r.Priority, r.In, r.Out) }
