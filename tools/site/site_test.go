package site_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/tools/site"
)

// repository is the folder above the navigation.
var repository = filepath.Join("../../docs/site.yaml", "..", "..")

// The site of this repository can be made: no page is missing in the navigation, no link
// leads nowhere, every diagram was drawn.
func TestTheSiteOfThisRepository(t *testing.T) {
	out := t.TempDir()
	if err := site.Build(repository, out); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"index.html":               {"<title>Nstance · Nstance</title>", `href="operations.html"`, `aria-current="page"`},
		"reference/admin.html":     {`href="../operations.html"`, `data-root="../"`},
		"decisions/index.html":     {"0001-leadership-on-object-storage.html"},
		"search-data.js":           {`"a":"operations.html#ports"`},
		"hosts/life.html":          {`<figure class="diagram"><svg`},
		"security.html":            {"Who is who"},
		"project/security.html":    {"Reporting a weakness"},
		"code.css":                 {".chroma", "prefers-color-scheme: dark"},
		"source/operator/examples": nil,
	} {
		at := filepath.Join(out, filepath.FromSlash(name))
		if info, err := os.Stat(at); err != nil {
			t.Error(err)
			continue
		} else if info.IsDir() {
			at = filepath.Join(at, "index.html")
		}
		data, err := os.ReadFile(at)
		if err != nil {
			t.Error(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(data), part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	const navigation = "sections: [{title: All, for: everybody, groups: [{pages: [README.md, docs/a.md]}]}]\n"
	cases := []struct {
		name  string
		files map[string]string
		want  string // "": the site is made
	}{
		{name: "links to pages, headings, files and folders hold", files: map[string]string{
			"docs/a.md": "# A\n\n## The b's\n\n[up](../README.md#nstance), [here](#the-bs), [file](x/y.txt), [folder](x)\n", "docs/x/y.txt": "y",
		}},
		{name: "an address of the web is left alone", files: map[string]string{"docs/a.md": "# A\n\n[out](https://example.com/x.md#y)\n"}},
		{name: "a link in code is no link", files: map[string]string{"docs/a.md": "# A\n\n    [x](y.md)\n\n`[x](y.md)`\n"}},
		{name: "a page outside of the navigation", files: map[string]string{"docs/b.md": "# B\n"}, want: "docs/b.md: add the page docs/b.md to a section of docs/site.yaml"},
		{
			name: "a page that is named twice", files: map[string]string{"docs/site.yaml": strings.Replace(navigation, "docs/a.md", "docs/a.md, docs/a.md", 1)},
			want: "docs/site.yaml: the page docs/a.md is named twice",
		},
		{
			name: "a page that does not exist", files: map[string]string{"docs/site.yaml": strings.Replace(navigation, "docs/a.md", "docs/a.md, docs/c.md", 1)},
			want: "docs/site.yaml: the page docs/c.md does not exist",
		},
		{name: "a field that nobody reads", files: map[string]string{"docs/site.yaml": "sectoins: []\n"}, want: "docs/site.yaml: "},
		{name: "a page without a heading", files: map[string]string{"docs/a.md": "words\n"}, want: "docs/a.md: a page begins with a heading"},
		{
			name: "two pages with one address",
			files: map[string]string{
				"docs/A.md": "# A again\n", "docs/site.yaml": strings.Replace(navigation, "docs/a.md", "docs/a.md, docs/A.md", 1),
			},
			want: "docs/A.md: another page has the address a.html",
		},
		{name: "a dead link", files: map[string]string{"docs/a.md": "# A\n\n[x](b.md)\n"}, want: "docs/a.md: the link b.md: there is no docs/b.md"},
		{name: "a dead picture", files: map[string]string{"docs/a.md": "# A\n\n![x](b.png)\n"}, want: "docs/a.md: the link b.png: there is no docs/b.png"},
		{name: "a missing heading", files: map[string]string{"docs/a.md": "# A\n\n[x](../README.md#z)\n"}, want: "docs/a.md: the link ../README.md#z: README.md has no such heading"},
		{name: "a diagram that was not drawn", files: map[string]string{"docs/a.md": "# A\n\n```mermaid\ngraph TD\n```\n"}, want: `docs/a.md: the diagram that begins with "graph TD" was not drawn`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root, out := t.TempDir(), filepath.Join(t.TempDir(), "site")
			for name, text := range map[string]string{"README.md": "# Nstance\n", "docs/a.md": "# A\n", site.NavigationFile: navigation} {
				put(t, root, name, text)
			}
			for name, text := range c.files {
				put(t, root, name, text)
			}
			err := site.Build(root, out)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Error("a part of the site was written")
			}
		})
	}
}

func TestNoOtherFolderIsEmptied(t *testing.T) {
	out := t.TempDir()
	put(t, out, "precious.txt", "x")
	if err := site.Build(repository, out); err == nil || !strings.Contains(err.Error(), "name another folder") {
		t.Errorf("got %v, want a refusal", err)
	}
	if _, err := os.Stat(filepath.Join(out, "precious.txt")); err != nil {
		t.Error(err)
	}
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	at := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
