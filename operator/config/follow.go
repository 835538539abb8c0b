package config

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Outcome is what came of reading the sources again.
type Outcome struct {
	Config Config // in force from now on
	Change Change // empty if the sources were refused
	Err    error  // why they were refused; nil: they were not
}

// FollowOptions are the settings of [Follow].
type FollowOptions struct {
	// Path is the configuration file; required.
	Path string
	// Shards is the data of the ConfigMap with the shards at the start, as in [Sources].
	Shards map[string]string
	// ConfigMap delivers that data whenever it changes, nil data when the ConfigMap is
	// gone. It is never closed; a nil channel never delivers.
	ConfigMap <-chan map[string]string
	// Config is in force at the start.
	Config Config
	// Interval is how often the file is read; 0: 5s. What an editor or a kubelet does to
	// it shows within that time.
	Interval time.Duration
	// Report is called for each change of the sources that either changes the
	// configuration or is refused, the same refusal once in a row. Not concurrently.
	Report func(Outcome)
}

// Follow reads the sources until ctx ends, and reports what has become of the
// configuration. It returns the reason of ctx.
func Follow(ctx context.Context, o FollowOptions) error {
	if o.Interval <= 0 {
		o.Interval = 5 * time.Second
	}
	ticks := time.NewTicker(o.Interval)
	defer ticks.Stop()
	f := &follower{config: o.Config, report: o.Report}
	shards := o.Shards
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case shards = <-o.ConfigMap:
		case <-ticks.C:
		}
		file, err := os.ReadFile(o.Path)
		if err != nil {
			f.refuse(fmt.Errorf("read configuration: %w", err))
			continue
		}
		f.offer(Sources{File: file, Shards: shards})
	}
}

// follower remembers what it said last, so that it says nothing twice.
type follower struct {
	config  Config
	refused string // the last refusal, until something is accepted
	report  func(Outcome)
}

// offer takes the sources if they are valid and lead to a configuration that a running
// process can follow.
func (f *follower) offer(src Sources) {
	next, err := Parse(src)
	if err != nil {
		f.refuse(err)
		return
	}
	change, err := Diff(f.config, next)
	if err != nil {
		f.refuse(err)
		return
	}
	f.config, f.refused = next, ""
	if !change.Empty() {
		f.report(Outcome{Config: next, Change: change})
	}
}

func (f *follower) refuse(err error) {
	if err.Error() == f.refused {
		return
	}
	f.refused = err.Error()
	f.report(Outcome{Config: f.config, Err: err})
}
