package rules

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"io"
	"strings"
	"testing"
)

func TestUserDataFits(t *testing.T) {
	noise := make([]byte, 17<<10)
	_, _ = rand.Read(noise)
	for _, c := range []struct {
		name, data string
		packed     bool
		want       string
	}{
		{"short", "#cloud-config\n", false, ""},
		{"as long as it may be", strings.Repeat("x", 16<<10), false, ""},
		{"too long, for cloud-init", "#cloud-config\n" + strings.Repeat("# x\n", 8<<10), true, ""},
		{"too long, in several parts", "Content-Type: multipart/mixed\n" + strings.Repeat("x\n", 16<<10), true, ""},
		{"too long, for somebody else", "<powershell>" + strings.Repeat("x", 16<<10), false, "user data has 16396 bytes, and EC2 takes 16384"},
		{"too long when compressed", "#!/bin/sh\n" + string(noise), true, "when compressed, and EC2 takes 16384"},
	} {
		got, err := EncodeUserData([]byte(c.data))
		if checked := checkUserData([]byte(c.data)); (checked == nil) != (err == nil) {
			t.Errorf("%s: the check says %v, the create %v", c.name, checked, err)
		}
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}
		if back := unpack(t, got, c.packed); err != nil || back != c.data {
			t.Errorf("%s: %d bytes came back, of %d; %v", c.name, len(back), len(c.data), err)
		}
	}
}

func unpack(t *testing.T, text string, packed bool) string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	if !packed {
		return string(data)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return string(data)
}
