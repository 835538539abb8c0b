package config_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/operator/config"
)

// follow starts the loop on a file and returns how to read what it has reported since.
func follow(t *testing.T, path string, text string, maps <-chan map[string]string) (reports func() []config.Outcome) {
	t.Helper()
	start, err := config.Parse(config.Sources{File: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan config.Outcome, 100)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- config.Follow(ctx, config.FollowOptions{
			Path: path, ConfigMap: maps, Config: start, Report: func(o config.Outcome) { got <- o },
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
	return func() []config.Outcome {
		time.Sleep(6 * time.Second)
		synctest.Wait()
		var out []config.Outcome
		for len(got) > 0 {
			out = append(out, <-got)
		}
		return out
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	one   = "cluster_id: c\nshards: {a: {operator_addr: h:1}}"
	two   = "cluster_id: c\nshards: {a: {operator_addr: h:1}, b: {operator_addr: h:2}}"
	other = "cluster_id: other\nshards: {a: {operator_addr: h:1}}"
)

func TestO2_TheFileIsFollowed(t *testing.T) {
	// As a kubelet mounts a ConfigMap: the file is a link through a link that is swapped.
	dir := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "v1", "config.yaml"), one)
	write(t, filepath.Join(dir, "v2", "config.yaml"), two)
	link := func(to, at string) {
		if err := os.Symlink(to, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	link("v1", "..data")
	link(filepath.Join("..data", "config.yaml"), "config.yaml")
	path := filepath.Join(dir, "config.yaml")

	synctest.Test(t, func(t *testing.T) {
		reports := follow(t, path, one, nil)
		if got := reports(); got != nil {
			t.Errorf("reported without a change: %+v", got)
		}
		link("v2", "..data")
		if got := reports(); len(got) != 1 || got[0].Err != nil || len(got[0].Change.Added) != 1 || len(got[0].Config.Shards) != 2 {
			t.Errorf("after the swap: %+v", got)
		}
		if got := reports(); got != nil {
			t.Errorf("reported again: %+v", got)
		}
	})
}

func TestO2_BadSourcesKeepTheOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, one)
	synctest.Test(t, func(t *testing.T) {
		reports := follow(t, path, one, nil)
		for _, bad := range []struct {
			text string
			want error
		}{{"cluster_id: c", config.ErrInvalid}, {"", config.ErrInvalid}, {other, config.ErrFixed}} {
			write(t, path, bad.text)
			got := reports()
			if len(got) != 1 || !errors.Is(got[0].Err, bad.want) || !got[0].Change.Empty() || got[0].Config.ClusterID != "c" || len(got[0].Config.Shards) != 1 {
				t.Errorf("%q: %+v", bad.text, got)
			}
			if got := reports(); got != nil {
				t.Errorf("%q: reported twice: %+v", bad.text, got)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if got := reports(); len(got) != 1 || !errors.Is(got[0].Err, fs.ErrNotExist) {
			t.Errorf("without the file: %+v", got)
		}
		write(t, path, one)
		if got := reports(); got != nil {
			t.Errorf("back at the old one: %+v", got)
		}
		write(t, path, other)
		if got := reports(); len(got) != 1 || !errors.Is(got[0].Err, config.ErrFixed) {
			t.Errorf("refused again: %+v", got)
		}
	})
}

func TestO2_TheConfigMapReplacesTheShards(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, one)
	synctest.Test(t, func(t *testing.T) {
		maps := make(chan map[string]string)
		reports := follow(t, path, one, maps)
		maps <- map[string]string{"z": "h:9"}
		if got := reports(); len(got) != 1 || len(got[0].Change.Added) != 1 || got[0].Change.Added[0] != "z" || got[0].Change.Removed[0] != "a" {
			t.Errorf("%+v", got)
		}
		maps <- nil
		if got := reports(); len(got) != 1 || got[0].Change.Added[0] != "a" {
			t.Errorf("after it is gone: %+v", got)
		}
	})
}
