package licences_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/tools/release/licences"
)

const gpl = `This program is free software; you can redistribute it and/or modify
it under the terms of the GNU General Public License as published by
the Free Software Foundation; either version 2 of the License, or
(at your option) any later version.

This program is distributed in the hope that it will be useful,
but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the
GNU General Public License for more details.
`

func TestRecognize(t *testing.T) {
	own, err := os.ReadFile(filepath.Join("..", "..", "..", "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ text, want, err string }{
		{text: string(own), want: "Apache-2.0"},
		{text: gpl, err: "nobody has looked"},
		{text: string(own) + gpl, err: "nobody has looked"},
		{text: "All rights reserved.", err: "0% of its text"},
		{text: string(own) + strings.Repeat("Except on Sundays, of course. ", 900), err: "% of its text"},
	} {
		got, err := licences.Recognize([]byte(test.text))
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%.40q: error %v, want %q", test.text, err, test.err)
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%.40q: %q, want %q", test.text, got, test.want)
		}
	}
}

// TestOf asks about the program beside this package, which is linked of one module of others.
func TestOf(t *testing.T) {
	got, err := licences.Of(t.Context(), []string{"nstance.dev/tools/release/cmd/licences"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []licences.Module{{Path: "github.com/google/licensecheck", Version: "v0.3.1", Licences: []string{"BSD-3-Clause"}, Programs: []string{"licences"}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(licences.Module{}, "Texts")); diff != "" {
		t.Error(diff)
	}
	if _, err := licences.Of(t.Context(), []string{"nstance.dev/tools/release/cmd/none"}, nil, nil); err == nil {
		t.Error("a program that does not exist has modules")
	}
}

func TestParts(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "package-lock.json")
	write := func(text string) {
		if err := os.WriteFile(lock, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"packages": {"": {"version": "1"}, "node_modules/b": {"version": "2.0.0", "license": "MIT"}, "node_modules/a/c": {"version": "1.0.0", "license": "OFL-1.1"},
		"node_modules/d": {"version": "3.0.0", "license": "GPL-2.0", "dev": true}}}`)
	got, err := licences.Parts(lock)
	want := []licences.Part{{Name: "a/c", Version: "1.0.0", Licence: "OFL-1.1"}, {Name: "b", Version: "2.0.0", Licence: "MIT"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	write(`{"packages": {"node_modules/b": {"license": "GPL-2.0"}}}`)
	if _, err := licences.Parts(lock); err == nil || !strings.Contains(err.Error(), "b: licence \"GPL-2.0\"") {
		t.Errorf("error %v", err)
	}
}

func TestPage(t *testing.T) {
	page := licences.Page([]licences.Module{
		{Path: "a.example/x", Version: "v1.0.0", Licences: []string{"MIT"}, Programs: []string{"p", "q"}},
		{Path: "b.example/y", Version: "v0.1.0", Licences: []string{"BSD-3-Clause", "MIT"}, Programs: []string{"q"}},
	}, []string{"cmd/p", "cmd/q"}, []licences.Part{{Name: "preact", Version: "1.0.0", Licence: "MIT"}})
	for _, want := range []string{
		"| MIT | 1 |\n", "| [`a.example/x`](https://pkg.go.dev/a.example/x@v1.0.0?tab=licenses) | v1.0.0 | MIT | all |\n",
		"v0.1.0 | BSD-3-Clause, MIT | `q` |\n", "| `preact` | 1.0.0 | MIT |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
