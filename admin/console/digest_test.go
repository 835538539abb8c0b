package console_test

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"nstance.dev/admin/console"
)

func TestTheBuiltPagesAreOfTheseSources(t *testing.T) {
	if err := console.CheckDigest(os.DirFS("web")); err != nil {
		t.Error(err)
	}
}

func TestDigest(t *testing.T) {
	web := func(files ...string) fstest.MapFS {
		fs := fstest.MapFS{}
		for i := 0; i < len(files); i += 2 {
			fs[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
		}
		return fs
	}
	base := web("index.html", "x", "src/a.ts", "1", "src/b/c.ts", "2")
	want, err := console.Digest(base)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		more fstest.MapFS
		same bool
	}{
		"nothing":        {web(), true},
		"built files":    {web("dist/app.js", "x", "node_modules/a/b.js", "y"), true},
		"dot-files":      {web(".gitignore", "x", "src/.cache/a", "y"), true},
		"Go's":           {web("embed.go", "x"), true},
		"a changed file": {web("src/a.ts", "3"), false},
		"one more":       {web("src/d.ts", ""), false},
		"dist below":     {web("src/dist/a.ts", ""), false},
		"another length": {web("src/a.ts", "1\x00"), false},
	} {
		fs := maps.Clone(base)
		maps.Copy(fs, test.more)
		got, err := console.Digest(fs)
		if err != nil || (got == want) != test.same {
			t.Errorf("%s: the same digest: %v, %v", name, got == want, err)
		}
	}
	base["dist/sources.sha256"] = &fstest.MapFile{Data: []byte(want + "\n")}
	if err := console.CheckDigest(base); err != nil {
		t.Error(err)
	}
	base["src/a.ts"] = &fstest.MapFile{Data: []byte("changed")}
	if err := console.CheckDigest(base); err == nil || !strings.Contains(err.Error(), "make console") {
		t.Errorf("of changed sources: %v", err)
	}
}
