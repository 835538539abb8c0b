package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/shard"
)

// source is where the configuration of the shard comes from: object storage,
// and a copy of the last good one in the cache directory for when storage is
// away or holds one that is invalid or not applicable (S19, S26).
type source struct {
	store objectstore.Store
	flags Flags
	opts  config.LoadOptions
	types *typeBook
	log   *slog.Logger

	rejected rejection // the stored version, while another one is in force

	mu     sync.Mutex
	judged string // the etag of the version that was read last, good or bad
	text   []byte // of that version, while it is good and not yet proved to work
}

func newSource(store objectstore.Store, f Flags, p Provider, log *slog.Logger) *source {
	s := &source{store: store, flags: f, opts: loadOptions(f, p), types: newTypeBook(log), log: log}
	s.opts.Rules = s.types.rules(s.opts.Rules)
	return s
}

// start loads the configuration for the start of the process. A bad one in
// storage is an error unless a good one was kept; while storage is away and
// none was kept, it is tried again until ctx ends.
func (s *source) start(ctx context.Context, waiting func()) (shard.Static, error) {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		static, err := s.fetch(ctx)
		if err == nil {
			return static, nil
		}
		var problems config.Problems
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
			return shard.Static{}, fmt.Errorf("configuration is not valid:\n%w", problems)
		}
		waiting()
		s.log.ErrorContext(ctx, "no configuration", "retry_in", wait, "error", err)
		if err := sleep(ctx, wait); err != nil {
			return shard.Static{}, err
		}
	}
}

// load checks a configuration, and asks the provider about types that were not in the
// ones before.
func (s *source) load(ctx context.Context, name string, data []byte) (*config.Config, error) {
	cfg, err := config.Load(name, data, s.opts)
	if s.types.learn(ctx) {
		return config.Load(name, data, s.opts)
	}
	return cfg, err
}

// fetch reads and checks the stored configuration.
func (s *source) fetch(ctx context.Context) (shard.Static, error) {
	key := bucket.ConfigKey(s.flags.Shard)
	obj, err := s.store.Get(ctx, key)
	if err != nil {
		return shard.Static{}, err
	}
	cfg, err := s.load(ctx, key, obj.Data)
	s.mu.Lock()
	s.judged, s.text = obj.ETag, nil
	if err == nil {
		s.text = obj.Data
	}
	s.mu.Unlock()
	if err != nil {
		return shard.Static{}, err
	}
	for _, w := range cfg.Warnings {
		s.log.WarnContext(ctx, "configuration is doubtful", "problem", w.String())
	}
	return shard.Static{Config: cfg, ETag: obj.ETag, Modified: obj.Modified, Size: len(obj.Data)}, nil
}

// changed reports whether storage holds another version than fetch read last.
func (s *source) changed(ctx context.Context) (bool, error) {
	obj, err := s.store.Get(ctx, bucket.ConfigKey(s.flags.Shard))
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return obj.ETag != s.judged, nil
}

func (s *source) lastJudged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judged
}

// hasJudged reports whether fetch read the version with this etag last.
func (s *source) hasJudged(etag string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return etag != "" && etag == s.judged
}

// sleep waits for d or the end of ctx, which it reports.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
