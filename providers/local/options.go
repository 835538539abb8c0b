package local

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/providers/local/machines"
	"nstance.dev/providers/local/rules"
)

// Options are the settings of a [Driver]. Dir is required; the other zero
// fields take the defaults.
type Options struct {
	Dir   string // where the machines live; made if it is missing
	Agent string // the agent's binary; nstance-agent beside the running binary

	// Room is how many machines fit into a subnet, by its name; one that is not
	// here takes any number. It makes a box fill up like a cloud.
	Room map[string]int

	// Addresses are those of which each machine is said to have one, by its id; zero: none
	// is known, as all share those of the box. Nothing can be reached there unless the user
	// data sees to it.
	Addresses netip.Prefix

	Shard string           // names the machines' URIs; "local"
	Log   *slog.Logger     // hears of trouble in work that nobody waits for; discards
	Now   func() time.Time // decides when marks are old enough to be forgotten; time.Now
}

// ParseOptions reads the provider's options from a server's configuration. The
// error names every unknown key and every value of the wrong type.
func ParseOptions(from map[string]any) (Options, error) {
	o, err := rules.ParseOptions(from)
	if err != nil {
		return Options{}, err
	}
	return Options{Dir: o.Dir, Agent: o.Agent, Room: o.Room, Addresses: o.Addresses}, nil
}

// complete fills in the defaults and checks what can be checked beforehand.
func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("dir: missing; set it to the directory in which the machines shall live")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("dir: %w", err)
	}
	o.Dir = dir
	if o.Agent == "" {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("agent: find the directory of this binary: %w", err)
		}
		o.Agent = filepath.Join(filepath.Dir(self), "nstance-agent")
	}
	if o.Agent, err = filepath.Abs(o.Agent); err != nil {
		return o, fmt.Errorf("agent: %w", err)
	}
	if err := machines.CheckAgent(o.Agent); err != nil {
		return o, err
	}
	if o.Shard == "" {
		o.Shard = "local"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
