package configsource

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"nstance.dev/server/config"
)

// lastGoodPath is where the copy of the last configuration lies that this server led or
// followed with.
func (s *Source) lastGoodPath() string {
	return filepath.Join(s.opts.CacheDir, "config", s.opts.Shard+".jsonc")
}

// Keep keeps a copy of the version with this etag for later starts: it has proved to
// work. If another one was read since, nothing is kept. That it could not be kept is
// logged.
func (s *Source) Keep(ctx context.Context, etag string) {
	if err := s.keep(etag); err != nil {
		s.log.WarnContext(ctx, "could not cache the last good configuration", "error", err)
	}
}

func (s *Source) keep(etag string) error {
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
	path := s.lastGoodPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(path, text, 0o600)
}

// kept reads the last good configuration.
func (s *Source) kept() (config.Version, error) {
	path := s.lastGoodPath()
	data, err := os.ReadFile(path)
	if err != nil {
		return config.Version{}, err
	}
	cfg, err := config.Load(path, data, s.opts.Load)
	if err != nil {
		return config.Version{}, err
	}
	return config.Version{Config: cfg, Size: len(data)}, nil
}

// errSame says that the last good configuration is the stored one.
var errSame = errors.New("the last good configuration is the same")

// LastGood returns the last good configuration. It is an error where there is none, or
// where it is the version that was read last.
func (s *Source) LastGood() (config.Version, error) {
	s.mu.Lock()
	text := s.text
	s.mu.Unlock()
	data, err := os.ReadFile(s.lastGoodPath())
	switch {
	case err != nil:
		return config.Version{}, err
	case text == nil || bytes.Equal(text, data):
		return config.Version{}, errSame
	}
	return s.kept()
}
