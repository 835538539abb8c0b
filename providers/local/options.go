package local

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Options are the settings of a [Driver]. Dir is required; the other zero
// fields take the defaults.
type Options struct {
	Dir   string // where the machines live; made if it is missing
	Agent string // the agent's binary; nstance-agent beside the running binary

	Shard string           // names the machines' URIs; "local"
	Log   *slog.Logger     // hears of trouble in work that nobody waits for; discards
	Now   func() time.Time // decides when marks are old enough to be forgotten; time.Now
}

// ParseOptions reads the provider's options from a server's configuration:
// "dir" and "agent". The error names every unknown key and every value of the
// wrong type.
func ParseOptions(from map[string]any) (Options, error) {
	var opts Options
	known := map[string]*string{"dir": &opts.Dir, "agent": &opts.Agent}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(from)) {
		field, ok := known[key]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: unknown option; the local provider has \"dir\" and \"agent\"", key))
			continue
		}
		text, ok := from[key].(string)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: is %T, must be a string with a path", key, from[key]))
			continue
		}
		*field = text
	}
	if dir, given := from["dir"]; !given || dir == "" {
		errs = append(errs, errors.New("dir: missing; set it to the directory in which the machines shall live"))
	}
	if err := errors.Join(errs...); err != nil {
		return Options{}, err
	}
	return opts, nil
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
	if err := checkAgent(o.Agent); err != nil {
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

func checkAgent(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("agent: %w; build it, or set \"agent\" to where it is", err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("agent: %s is not an executable file", path)
	}
	return nil
}
