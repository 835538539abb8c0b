package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/agent/paver/image"
)

const hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestSourcesThatAreNotOne(t *testing.T) {
	h := newHost(t, image.Options{})
	for what, src := range map[string]image.Source{
		"none":                       {},
		"two":                        {OCI: &image.OCI{Reference: "a:1"}, Archive: &image.Archive{URL: "https://example.com/a"}},
		"no reference":               {OCI: &image.OCI{}},
		"a reference with spaces":    {OCI: &image.OCI{Reference: "a b"}},
		"a reference with dots":      {OCI: &image.OCI{Reference: "registry.example.com/../a:1"}},
		"a digest that is short":     {OCI: &image.OCI{Reference: "a:1", Digest: "sha256:" + hex[1:]}},
		"a digest of another kind":   {OCI: &image.OCI{Reference: "a@sha512:" + hex + hex}},
		"an empty digest":            {OCI: &image.OCI{Reference: "a@"}},
		"two digests":                {OCI: &image.OCI{Reference: "a@sha256:" + hex, Digest: "sha256:" + strings.Repeat("0", 64)}},
		"no address":                 {Archive: &image.Archive{SHA256: "sha256:" + hex}},
		"an address that leads up":   {Archive: &image.Archive{URL: "https://example.com/a/../b", SHA256: "sha256:" + hex}},
		"one that leads up, encoded": {Archive: &image.Archive{URL: "https://example.com/a/%2e%2e/b", SHA256: "sha256:" + hex}},
		"a user in an address":       {Archive: &image.Archive{URL: "https://u:" + marked + "@example.com/a", SHA256: "sha256:" + hex}},
		"what is no address":         {Archive: &image.Archive{URL: "https://exa mple.com/" + marked, SHA256: "sha256:" + hex}},
		"a local file":               {Archive: &image.Archive{URL: "file:///etc/passwd", SHA256: "sha256:" + hex}},
		"no digest of an archive":    {Archive: &image.Archive{URL: "https://example.com/a", SHA256: hex}},
		"a suite that is an option":  {Debootstrap: &image.Debootstrap{Suite: "--help"}},
		"a suite that is a path":     {Debootstrap: &image.Debootstrap{Suite: "../x"}},
		"a package that is two":      {Debootstrap: &image.Debootstrap{Suite: "bookworm", Packages: []string{"a,b"}}},
		"a variant that is more":     {Debootstrap: &image.Debootstrap{Suite: "bookworm", Variant: "minbase --x"}},
		"a keyring that is no path":  {Debootstrap: &image.Debootstrap{Suite: "bookworm", Keyring: "--x"}},
		"a keyring that leads up":    {Debootstrap: &image.Debootstrap{Suite: "bookworm", Keyring: "/a/../b"}},
		"a mirror that is a path":    {Debootstrap: &image.Debootstrap{Suite: "bookworm", Mirror: "file:///srv"}},
	} {
		if _, err := h.ensure(t, src); !errors.Is(err, image.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(h.dir, "*/*")); len(left) != 0 {
		t.Errorf("left are %q", left)
	}
}

func FuzzAddress(f *testing.F) {
	for _, text := range []string{"https://example.com/a/b?c", "http://EXAMPLE.com:80/", "https://example.com/a/%2e%2e/b", "https://u@example.com"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := image.Address(text)
		if err != nil {
			return
		}
		if again, err := image.Address(address.String()); err != nil || again.String() != address.String() {
			t.Errorf("%q becomes %q, and that %v, %v", text, address, again, err)
		}
		if strings.Contains(address.Path+"/", "/../") || address.User != nil || address.Host == "" {
			t.Errorf("%q is let through", text)
		}
	})
}

func FuzzParsePullSecret(f *testing.F) {
	f.Add([]byte(`{"auths":{"registry.example.com":{"username":"u","password":"p"}}}`))
	f.Add([]byte(`{"auths":{"[":{"auth":"dTpw"}}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if s, err := image.ParsePullSecret(data); err == nil {
			_, _ = s.For("registry.example.com", "a/b").Authorization()
		}
	})
}

// script is a program that stands for debootstrap.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "debootstrap")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
