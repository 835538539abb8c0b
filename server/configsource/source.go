package configsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/driver"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// Options are what a Source needs to know of its server. All are required.
type Options struct {
	Shard    string             // whose configuration it is
	CacheDir string             // folder below which the copy of the last good version lies
	Load     config.LoadOptions // how a configuration is checked
	Log      *slog.Logger
}

// Source reads the configuration of a shard. Make one with [New].
type Source struct {
	store objectstore.Store
	opts  Options
	types *typeBook
	log   *slog.Logger

	rejected rejection // the stored version, while another one is in force

	mu     sync.Mutex
	judged string // the etag of the version that was read last, good or bad
	text   []byte // of that version, while it is good and not yet proved to work
}

// New makes a source that has read nothing yet.
func New(store objectstore.Store, opts Options) *Source {
	s := &Source{store: store, opts: opts, types: newTypeBook(opts.Log), log: opts.Log}
	s.opts.Load.Rules = s.types.rules(opts.Load.Rules)
	return s
}

// AskTypes has v say which instance types there are, and of which architecture: from
// then on a configuration is checked with what it says. The questions of one check are
// answered within the timeout, or stay open.
func (s *Source) AskTypes(v driver.TypeValidator, timeout time.Duration) { s.types.ask(v, timeout) }

// ArchMismatch says why machines of an instance type are not of an architecture, as far as the
// provider has said so before; nil: they are, or nothing is known.
func (s *Source) ArchMismatch(instanceType, arch string) error {
	return s.types.archMismatch(instanceType, arch)
}

// Rejected returns the etag of the stored version, and why it is not in force; empty
// where it is.
func (s *Source) Rejected() (etag, why string) { return s.rejected.get() }

// Reject says why a stored version is not in force.
func (s *Source) Reject(etag, why string) { s.rejected.set(etag, why) }

// Metric is 1 while the stored version is rejected.
func (s *Source) Metric() prometheus.Collector { return s.rejected.metric() }

// Start loads the configuration for the start of a server. A bad one in storage is an
// error unless a good one was kept. While storage is away and none was kept, Start tries
// again until ctx ends, and calls waiting before each pause.
func (s *Source) Start(ctx context.Context, waiting func()) (config.Version, error) {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		version, err := s.fetch(ctx)
		if err == nil {
			return version, nil
		}
		var problems jsonc.Problems
		invalid := errors.As(err, &problems)
		kept, keptErr := s.kept()
		if keptErr == nil {
			if invalid {
				s.rejected.set(s.lastJudged(), problems.Error())
			}
			s.log.ErrorContext(ctx, "the last good configuration stays in force", "error", err)
			return kept, nil
		}
		if invalid {
			return config.Version{}, fmt.Errorf("configuration is not valid:\n%w", problems)
		}
		waiting()
		s.log.ErrorContext(ctx, "no configuration", "retry_in", wait, "error", err)
		if err := retry.Wait(ctx, wait); err != nil {
			return config.Version{}, err
		}
	}
}

// load checks a configuration, and asks the provider about types that were not in the
// ones before.
func (s *Source) load(ctx context.Context, data []byte) (*effective.Config, error) {
	key := layout.ConfigKey(s.opts.Shard)
	cfg, err := config.Load(key, data, s.opts.Load)
	if s.types.learn(ctx) {
		return config.Load(key, data, s.opts.Load)
	}
	return cfg, err
}

// fetch reads and checks the stored configuration.
func (s *Source) fetch(ctx context.Context) (config.Version, error) {
	obj, err := s.store.Get(ctx, layout.ConfigKey(s.opts.Shard))
	if err != nil {
		return config.Version{}, err
	}
	cfg, err := s.load(ctx, obj.Data)
	s.mu.Lock()
	s.judged, s.text = obj.ETag, nil
	if err == nil {
		s.text = obj.Data
	}
	s.mu.Unlock()
	if err != nil {
		return config.Version{}, err
	}
	for _, w := range cfg.Warnings {
		s.log.WarnContext(ctx, "configuration warning", "problem", w.String())
	}
	return config.Version{Config: cfg, ETag: obj.ETag, Modified: obj.Modified, Size: len(obj.Data)}, nil
}

// changed reports whether storage holds another version than fetch read last.
func (s *Source) changed(ctx context.Context) (bool, error) {
	obj, err := s.store.Get(ctx, layout.ConfigKey(s.opts.Shard))
	if err != nil {
		return false, err
	}
	return obj.ETag != s.lastJudged(), nil
}

func (s *Source) lastJudged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judged
}

// hasJudged reports whether fetch read the version with this etag last.
func (s *Source) hasJudged(etag string) bool { return etag != "" && etag == s.lastJudged() }
