package keys_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/agent/keys"
)

func open(t testing.TB) (*keys.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	s, err := keys.Open(dir, 0o640, 0o750)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func public(t *testing.T, s *keys.Store, name string) string {
	t.Helper()
	p, err := s.Public(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestPublic(t *testing.T) {
	s, dir := open(t)
	first := public(t, s, "kubelet.server")
	block, _ := pem.Decode([]byte(first))
	if block == nil || block.Type != "PUBLIC KEY" {
		t.Fatalf("public half %s", first)
	}
	if key, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		t.Error(err)
	} else if _, ok := key.(*ecdsa.PublicKey); !ok {
		t.Errorf("key is a %T", key)
	}
	for name, mode := range map[string]os.FileMode{"kubelet.server.key": 0o640, "kubelet.server.pub": 0o640, "": 0o750} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%q: mode %v, error %v; want %v", name, info.Mode(), err, mode)
		}
	}
	if public(t, s, "kubelet.client") == first {
		t.Error("two names have one key")
	}
	if err := os.Remove(filepath.Join(dir, "kubelet.server.pub")); err != nil {
		t.Fatal(err)
	}
	if public(t, s, "kubelet.server") != first {
		t.Error("another key when asked again")
	}
	if data, err := os.ReadFile(filepath.Join(dir, "kubelet.server.pub")); err != nil || string(data) != first {
		t.Errorf("public half on disk: %s, %v", data, err)
	}
}

func TestAnUnusableKeyIsNotReplaced(t *testing.T) {
	s, dir := open(t)
	for _, content := range []string{"", "garbage", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		path := filepath.Join(dir, "a.key")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Public("a"); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("error %v, want one that says what to do", err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != content {
			t.Errorf("file is now %q, %v", now, err)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"kubelet.server", "", ".", "..", "../x", "a/b", "A", "a\n", strings.Repeat("a", 125)} {
		f.Add(s)
	}
	s, dir := open(f)
	f.Fuzz(func(t *testing.T, name string) {
		if keys.ValidName(name) {
			if filepath.Dir(filepath.Join(dir, name)) != dir || name[0] == '.' || len(name)+len(".key") > 128 {
				t.Fatalf("%q is accepted", name)
			}
			return
		}
		if _, err := s.Public(name); !errors.Is(err, keys.ErrName) {
			t.Fatalf("Public(%q): error %v, want %v", name, err, keys.ErrName)
		}
	})
}
