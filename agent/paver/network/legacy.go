package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Legacy is what iptables has in the kernel's older tables, which nft does not see. Programs of Pods
// use these where their images bring that iptables along.
type Legacy struct {
	// Chains that are not built in.
	Chains []LegacyChain `json:"chains,omitempty"`
	// Jumps are the rules that end in another chain. They are not recorded.
	Jumps []LegacyJump `json:"-"`
}

// LegacyChain is a chain of a table.
type LegacyChain struct {
	IPv6  bool   `json:"ipv6,omitempty"`
	Table string `json:"table"`
	Name  string `json:"name"`
}

// LegacyJump is a rule of a chain that ends in another one; Rule are its words as iptables takes them.
type LegacyJump struct {
	LegacyChain
	Target string
	Rule   []string
}

// legacyProgram changes the older tables of a family.
func legacyProgram(ipv6 bool) string {
	if ipv6 {
		return "ip6tables-legacy"
	}
	return "iptables-legacy"
}

// readLegacy reads the tables that are in use. To read them loads none, and a host without the programs
// has none that could be changed.
func readLegacy(ctx context.Context, run Run) (l Legacy, err error) {
	for _, ipv6 := range []bool{false, true} {
		text, err := run(ctx, legacyProgram(ipv6)+"-save")
		switch {
		case errors.Is(err, errNoProgram):
			continue
		case err != nil:
			return l, fmt.Errorf("read iptables: %w", err)
		}
		if err := l.parse(string(text), ipv6); err != nil {
			return l, fmt.Errorf("read iptables: %w", err)
		}
	}
	return l, nil
}

// parse reads what iptables-save prints: tables, their chains, their rules.
func (l *Legacy) parse(text string, ipv6 bool) error {
	table := ""
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#' || line == "COMMIT":
		case line[0] == '*':
			table = line[1:]
		case line[0] == ':':
			name, policy, _ := strings.Cut(line[1:], " ")
			if strings.HasPrefix(policy, "-") { // built-in chains have a policy
				l.Chains = append(l.Chains, LegacyChain{ipv6, table, name})
			}
		case strings.HasPrefix(line, "-A "):
			rule, err := words(line)
			if err != nil {
				return err
			}
			if at := slices.IndexFunc(rule, func(w string) bool { return w == "-j" || w == "-g" }); at > 1 && at+1 < len(rule) {
				l.Jumps = append(l.Jumps, LegacyJump{LegacyChain{ipv6, table, rule[1]}, rule[at+1], rule[2:]})
			}
		}
	}
	return nil
}

// words are those of a line, of which some are in double quotes.
func words(line string) (all []string, err error) {
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				all = append(all, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quoted {
		return nil, errors.New("a rule has a quote without an end")
	}
	if begun {
		all = append(all, word.String())
	}
	return all, nil
}

// legacyLeftovers are the commands that remove what came since, jumps first.
func legacyLeftovers(before, now Legacy) (commands []Command) {
	gone := func(c LegacyChain) bool {
		return matches(c.Name, chainPatterns) && !slices.Contains(before.Chains, c)
	}
	call := func(c LegacyChain, words ...string) {
		commands = append(commands, append(Command{legacyProgram(c.IPv6), "--wait", "5", "--table", c.Table}, words...))
	}
	for _, j := range now.Jumps {
		target := j.LegacyChain
		target.Name = j.Target
		if gone(target) && !gone(j.LegacyChain) {
			call(j.LegacyChain, append([]string{"--delete", j.Name}, j.Rule...)...)
		}
	}
	chains := sorted(now.Chains, LegacyChain.key)
	chains = slices.DeleteFunc(chains, func(c LegacyChain) bool { return !gone(c) })
	for _, c := range chains { // they may jump to each other
		call(c, "--flush", c.Name)
	}
	for _, c := range chains {
		call(c, "--delete-chain", c.Name)
	}
	return commands
}

func (c LegacyChain) key() string { return fmt.Sprintf("%t %s %s", c.IPv6, c.Table, c.Name) }
