package secrets_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/server/secrets"
)

var (
	rawA    = strings.Repeat("a", 32)
	rawLF   = strings.Repeat("\n", 32) // every byte a line break: a raw key all the same
	base64A = "base64:" + base64.StdEncoding.EncodeToString([]byte(rawA))
	hexA    = "hex:" + hex.EncodeToString([]byte(rawA))
	hexB    = "hex:" + strings.Repeat("62", 32)
)

func TestParseKeys(t *testing.T) {
	a, b, lf := key(t, "a"), key(t, "b"), key(t, "\n")
	for name, tt := range map[string]struct {
		source string
		want   []secrets.Key
	}{
		"raw":                        {rawA, []secrets.Key{a}},
		"raw and a line break":       {rawA + "\n", []secrets.Key{a}},
		"raw line breaks":            {rawLF, []secrets.Key{lf}},
		"raw line breaks and one":    {rawLF + "\n", []secrets.Key{lf}},
		"base64":                     {base64A + "\n", []secrets.Key{a}},
		"hex":                        {hexA, []secrets.Key{a}},
		"hex with a carriage return": {hexA + "\r\n", []secrets.Key{a}},
		"two raw":                    {rawA + "\n" + rawLF, []secrets.Key{a, lf}},
		"two raw and a line break":   {rawA + "\n" + rawLF + "\n", []secrets.Key{a, lf}},
		"two encoded":                {hexB + "\n" + base64A + "\n", []secrets.Key{b, a}},
		"raw, then encoded":          {rawA + "\n" + hexB, []secrets.Key{a, b}},
	} {
		got, err := secrets.ParseKeys([]byte(tt.source))
		if err != nil || fmt.Sprint(len(got)) != fmt.Sprint(len(tt.want)) {
			t.Errorf("%s: %d keys, %v, want %d", name, len(got), err, len(tt.want))
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: key %d is another", name, i+1)
			}
		}
	}
}

func TestS14_BadKeysAreRefusedWithoutBeingShown(t *testing.T) {
	for name, source := range map[string]string{
		"empty":           "",
		"short":           "tooshort",
		"long":            rawA + "x",
		"two line breaks": rawA + "\n\n",
		"three":           hexA + "\n" + hexA + "\n" + hexA,
		"bad base64":      "base64:tooshort!",
		"short base64":    "base64:" + base64.StdEncoding.EncodeToString([]byte("tooshort")),
		"bad hex":         "hex:tooshort",
		"second is bad":   hexA + "\ntooshort",
	} {
		keys, err := secrets.ParseKeys([]byte(source))
		if !errors.Is(err, secrets.ErrKey) || keys != nil {
			t.Errorf("%s: %d keys, %v, want ErrKey", name, len(keys), err)
			continue
		}
		if strings.Contains(err.Error(), "tooshort") || strings.Contains(err.Error(), rawA) {
			t.Errorf("%s: the error shows the key", name)
		}
	}
}

func TestKeySources(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(hexB+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NSTANCE_ENCRYPTION_KEY", rawA)
	t.Setenv("OTHER_KEY", hexB)
	for _, tt := range []struct {
		provider, source, fill string
	}{
		{"env", "", "a"}, {"env", "OTHER_KEY", "b"}, {"file", path, "b"},
	} {
		source, err := secrets.OpenKeySource(tt.provider, tt.source)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := source.Keys(t.Context())
		if err != nil || len(keys) != 1 || keys[0] != key(t, tt.fill) {
			t.Errorf("%s %q: %d keys, %v", tt.provider, tt.source, len(keys), err)
		}
	}
}

func TestKeySourcesThatFail(t *testing.T) {
	t.Setenv("EMPTY_KEY", "")
	dir := t.TempDir()
	long := filepath.Join(dir, "long")
	if err := os.WriteFile(long, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ provider, source, says string }{
		{"env", "EMPTY_KEY", "EMPTY_KEY is empty or not set"},
		{"file", filepath.Join(dir, "absent"), "no such file"},
		{"file", long, "longer than"},
		{"file", "", "needs a path"},
		{"aws-parameter-store", "x", "this program has env and file"},
		{"", "x", "this program has env and file"},
	} {
		source, err := secrets.OpenKeySource(tt.provider, tt.source)
		if err == nil {
			_, err = source.Keys(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %q: %v, want an error that says %q", tt.provider, tt.source, err, tt.says)
		}
	}
}

func TestLoadKeys(t *testing.T) {
	t.Setenv("NEW_KEYS", hexA+"\n"+hexB)
	t.Setenv("OLD_KEY", rawA)
	current, _ := secrets.OpenKeySource("env", "NEW_KEYS")
	old, _ := secrets.OpenKeySource("env", "OLD_KEY")
	keys, err := secrets.LoadKeys(t.Context(), current, old)
	if err != nil || len(keys) != 3 || keys[0] != key(t, "a") || keys[1] != key(t, "b") {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if keys, err := secrets.LoadKeys(t.Context(), nil); err != nil || keys != nil {
		t.Errorf("without a source: %d keys, %v", len(keys), err)
	}
	if _, err := secrets.LoadKeys(t.Context(), nil, old); !errors.Is(err, secrets.ErrKey) {
		t.Errorf("old keys alone: %v, want ErrKey", err)
	}
}

func TestS14_SecretsDoNotShow(t *testing.T) {
	const marked = "marked-marked-marked-marked-mark"
	k, err := secrets.NewKey([]byte(marked))
	if err != nil {
		t.Fatal(err)
	}
	s := secrets.Secret(marked)
	holder := struct {
		S secrets.Secret
		P *secrets.Secret
		K secrets.Key
	}{s, &s, k}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		for _, v := range []any{s, &s, k, &k, holder, []secrets.Secret{s}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	data, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(data)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "s", s, "k", k, "holder", holder)
	}
	out.WriteString(fmt.Sprint(errors.New("x"), s, k))
	for _, trace := range []string{marked, fmt.Sprintf("%x", marked), fmt.Sprintf("%X", marked), fmt.Sprint([]byte(marked)[:4])[1:12], base64.StdEncoding.EncodeToString([]byte(marked))} {
		if strings.Contains(out.String(), trace) {
			t.Errorf("%q shows in:\n%s", trace, out.String())
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	for _, s := range []string{"", rawA, rawLF, hexA, base64A, rawA + "\n" + hexB, "base64:", "hex:0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := secrets.ParseKeys(data)
		if err != nil && !errors.Is(err, secrets.ErrKey) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if err == nil && (len(keys) < 1 || len(keys) > 2) {
			t.Fatalf("%d keys", len(keys))
		}
	})
}
