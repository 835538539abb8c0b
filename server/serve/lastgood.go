package serve

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/renameio/v2"
	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/config"
	"nstance.dev/server/shard"
)

// lastGood is where the copy of the last configuration lies that this server led or
// followed with.
func (s *source) lastGood() string {
	return filepath.Join(s.flags.CacheDir, "config", s.flags.Shard+".jsonc")
}

// proved keeps a copy of the version with this etag for later starts: it has proved to
// work. If another one was read since, nothing is kept.
func (s *source) proved(etag string) error {
	s.mu.Lock()
	text := s.text
	if etag != s.judged {
		text = nil
	} else {
		s.text = nil
	}
	s.mu.Unlock()
	if text == nil {
		return nil
	}
	path := s.lastGood()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(path, text, 0o600)
}

// works says that the configuration has proved to work: with it the shard is led or
// followed.
func (p *process) works() { p.doesWork.Do(func() { close(p.working) }) }

// keepGood keeps a copy of the configuration that this run began with, once it has
// proved to work.
func (p *process) keepGood(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.working:
		p.keep(ctx, p.tried)
	}
}

// keep keeps a copy of the version of the configuration with this etag.
func (p *process) keep(ctx context.Context, etag string) {
	if err := p.source.proved(etag); err != nil {
		p.log.WarnContext(ctx, "could not cache the last good configuration", "error", err)
	}
}

// kept reads the last good configuration.
func (s *source) kept() (shard.Static, error) {
	path := s.lastGood()
	data, err := os.ReadFile(path)
	if err != nil {
		return shard.Static{}, err
	}
	cfg, err := config.Load(path, data, s.opts)
	if err != nil {
		return shard.Static{}, err
	}
	return shard.Static{Config: cfg, Size: len(data)}, nil
}

// errSame says that the last good configuration is the stored one.
var errSame = errors.New("the last good configuration is the same")

// other is the last good configuration, if it is not the version that was read last.
func (s *source) other() (shard.Static, error) {
	s.mu.Lock()
	text := s.text
	s.mu.Unlock()
	data, err := os.ReadFile(s.lastGood())
	switch {
	case err != nil:
		return shard.Static{}, err
	case text == nil || bytes.Equal(text, data):
		return shard.Static{}, errSame
	}
	return s.kept()
}

// rejection is the stored version of the configuration that is not in force, and why.
// The zero value is none. It is safe for concurrent use.
type rejection struct {
	mu        sync.Mutex
	etag, why string
}

func (r *rejection) set(etag, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.etag, r.why = etag, why
}

func (r *rejection) get() (etag, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.etag, r.why
}

// metric is 1 while there is one.
func (r *rejection) metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nstance_config_rejected",
		Help: "1 while the stored configuration is invalid or not applicable, and the last good one is in force.",
	}, func() float64 {
		if etag, _ := r.get(); etag != "" {
			return 1
		}
		return 0
	})
}
