package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"nstance.dev/agent/paver/command"
)

// Run runs a program of the host and returns what it printed. Its output is not cut.
type Run func(ctx context.Context, argv ...string) ([]byte, error)

// errNoProgram is matched by the error about a program that the host does not have.
var errNoProgram = exec.ErrNotFound

// Host runs the programs of this host.
func Host(ctx context.Context, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out strings.Builder
	cmd.Stdout = &out
	result, err := command.RunFor(cmd)
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("exit code %d: %.512s", result.Code, strings.TrimSpace(string(result.Text)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Command(argv), err)
	}
	return []byte(out.String()), nil
}

// Read reads what the host's network has. Without the program nft nothing of nftables is seen, and
// nothing of it is ever removed; without iptables-legacy the same holds for the older tables.
func Read(ctx context.Context, run Run) (State, error) {
	var s State
	text, err := run(ctx, "ip", "-json", "link", "show")
	if err != nil {
		return s, fmt.Errorf("read interfaces: %w", err)
	}
	if s.Links, err = parseLinks(text); err != nil {
		return s, fmt.Errorf("read interfaces: %w", err)
	}
	for _, family := range []string{"-4", "-6"} {
		text, err := run(ctx, "ip", family, "-json", "rule", "show")
		if err != nil {
			if family == "-6" { // a kernel without IPv6
				continue
			}
			return s, fmt.Errorf("read rules of routing: %w", err)
		}
		rules, err := parseRules(text, family == "-6")
		if err != nil {
			return s, fmt.Errorf("read rules of routing: %w", err)
		}
		s.Rules = append(s.Rules, rules...)
	}
	if s.Legacy, err = readLegacy(ctx, run); err != nil {
		return s, err
	}
	text, err = run(ctx, "nft", "--json", "--stateless", "list", "ruleset")
	switch {
	case errors.Is(err, errNoProgram):
		return s, nil
	case err != nil:
		return s, fmt.Errorf("read nftables: %w", err)
	}
	if err := s.parseRuleset(text); err != nil {
		return s, fmt.Errorf("read nftables: %w", err)
	}
	return s, nil
}

// Remove carries commands out. Every one is tried; an error is that of all that failed, and what
// could not be removed will be found again.
func Remove(ctx context.Context, run Run, commands []Command) error {
	var errs []error
	for _, c := range commands {
		if _, err := run(ctx, c...); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func parseLinks(text []byte) (names []string, err error) {
	var links []struct {
		Name string `json:"ifname"`
	}
	if err := json.Unmarshal(orEmpty(text), &links); err != nil {
		return nil, err
	}
	for _, l := range links {
		if l.Name != "" {
			names = append(names, l.Name)
		}
	}
	return names, nil
}

func parseRules(text []byte, ipv6 bool) (rules []Rule, err error) {
	var all []struct {
		Priority int    `json:"priority"`
		In       string `json:"iif"`
		Out      string `json:"oif"`
		Table    string `json:"table"`
	}
	if err := json.Unmarshal(orEmpty(text), &all); err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.In != "" || r.Out != "" {
			rules = append(rules, Rule{r.Priority, r.In, r.Out, r.Table, ipv6})
		}
	}
	return rules, nil
}

// orEmpty takes no output for no element, as ip writes it.
func orEmpty(text []byte) []byte {
	if len(strings.TrimSpace(string(text))) == 0 {
		return []byte("[]")
	}
	return text
}

// parseRuleset reads the ruleset in libnftables' JSON. Unknown objects are left out.
func (s *State) parseRuleset(text []byte) error {
	var ruleset struct {
		Objects []struct {
			Table *Table `json:"table"`
			Chain *Chain `json:"chain"`
			Rule  *struct {
				Family string            `json:"family"`
				Table  string            `json:"table"`
				Chain  string            `json:"chain"`
				Handle int64             `json:"handle"`
				Expr   []json.RawMessage `json:"expr"`
			} `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(text, &ruleset); err != nil {
		return err
	}
	for _, o := range ruleset.Objects {
		switch {
		case o.Table != nil:
			s.Tables = append(s.Tables, *o.Table)
		case o.Chain != nil:
			s.Chains = append(s.Chains, *o.Chain)
		case o.Rule != nil:
			for _, e := range o.Rule.Expr {
				if target := jumpTarget(e); target != "" {
					s.Jumps = append(s.Jumps, Jump{o.Rule.Family, o.Rule.Table, o.Rule.Chain, target, o.Rule.Handle})
				}
			}
		}
	}
	return nil
}

// jumpTarget is the chain that an expression jumps to, or goes to; empty: it does not.
func jumpTarget(expression json.RawMessage) string {
	var e struct {
		Jump, Goto struct {
			Target string `json:"target"`
		}
	}
	if json.Unmarshal(expression, &e) != nil { // a word, or an expression of another form
		return ""
	}
	if e.Jump.Target != "" {
		return e.Jump.Target
	}
	return e.Goto.Target
}
