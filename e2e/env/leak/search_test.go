package leak

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secret has bytes of every kind: letters, quotes, line ends, and no UTF-8.
var secret = []byte("a \"secret\"\n\x00\xff\xfe<&> of 32 bytes \x1f+/")

const name = "the secret"

func searcher() *Search {
	s := New()
	s.Mark(name, secret)
	return s
}

func zipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestEachFormIsFound(t *testing.T) {
	text, err := json.Marshal(map[string]string{"key": string(secret)})
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{
		"as it is":      secret,
		"hex":           []byte(hex.EncodeToString(secret)),
		"HEX":           []byte(strings.ToUpper(hex.EncodeToString(secret))),
		"fmt":           fmt.Appendf(nil, "key is %v", secret),
		"%q":            fmt.Appendf(nil, "key is %q", secret),
		"%+q":           fmt.Appendf(nil, "key is %+q", secret),
		"JSON":          text,
		"JSON bytes":    []byte(strings.ReplaceAll(fmt.Sprint(secret), " ", ",")),
		"gzip":          zipped(t, secret),
		"gzip, twice":   zipped(t, append([]byte("inside: "), zipped(t, secret)...)),
		"gzip, amid":    append(append([]byte("before\x1f\x8b\x08"), zipped(t, secret)...), "after"...),
		"gzip, cut":     zipped(t, append(bytes.Clone(secret), strings.Repeat("more ", 5000)...))[:90],
		"hex in gzip":   zipped(t, []byte(hex.EncodeToString(secret))),
		"second member": append(zipped(t, []byte("first")), zipped(t, secret)...),
	}
	for before := range 6 {
		for after := range 3 {
			padded := []byte(strings.Repeat("x", before) + string(secret) + strings.Repeat("y", after))
			place := fmt.Sprintf("base64, %d before and %d after", before, after)
			contents[place] = []byte(base64.StdEncoding.EncodeToString(padded))
			contents[place+", for URLs"] = []byte(base64.RawURLEncoding.EncodeToString(padded))
		}
	}
	for what, content := range contents {
		// Whatever stands around it.
		content = append(append([]byte("noise "), content...), " noise"...)
		if found := searcher().Look(what, content); len(found) == 0 {
			t.Errorf("%s: not found in %q", what, content)
		}
	}
}

func TestNothingIsFoundWhereNothingIs(t *testing.T) {
	s := searcher()
	for _, content := range [][]byte{nil, secret[1:], secret[:len(secret)-1], []byte("a secret"), zipped(t, nil), bytes.Repeat(magic, 100)} {
		if found := s.Look("nothing", content); len(found) > 0 {
			t.Errorf("%q: %v", content, found)
		}
	}
}

func TestWhatIsAllowedIsNotFound(t *testing.T) {
	s := searcher()
	s.Mark("another", []byte("something else altogether"))
	content := append([]byte("something else altogether "), secret...)
	found := s.Look("here", content, name)
	if len(found) != 1 || found[0] != (Finding{"another", "as it is", "here"}) {
		t.Errorf("found %v", found)
	}
}

func TestTreeSearchesFilesAndTheirNames(t *testing.T) {
	dir := t.TempDir()
	for path, content := range map[string][]byte{
		"a/b/deep": secret, "clean": []byte("nothing"), "home": secret,
		hex.EncodeToString(secret): nil,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := searcher().Tree(dir, func(path string) []string {
		if path == filepath.Join(dir, "home") {
			return []string{name}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		filepath.Join(dir, "a/b/deep"):                                  true,
		"the name of " + filepath.Join(dir, hex.EncodeToString(secret)): true,
	}
	for _, f := range found {
		if !want[f.Place] {
			t.Errorf("found %v", f)
		}
		delete(want, f.Place)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
	if _, err := searcher().Tree(filepath.Join(dir, "absent"), nil); err == nil {
		t.Error("a directory that is not there was searched without an error")
	}
}

func TestTitlesAreSearched(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read -r line", "marker", hex.EncodeToString(secret))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	place := fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid)
	found := false
	for deadline := time.Now().Add(time.Minute); !found && time.Now().Before(deadline); {
		all, err := searcher().Titles() // until its exec is over it has our own title
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			found = found || f.Place == place
		}
	}
	if !found {
		t.Errorf("the title in %s is not found", place)
	}
	_ = in.Close()
	_ = cmd.Wait() // the end of its input is an error to it
}

func TestShortMarkersAreRefused(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a marker of 3 bytes was taken")
		}
	}()
	New().Mark("short", []byte("abc"))
}
