package jsonc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type even int

func (e *even) UnmarshalJSON(data []byte) error {
	var n int
	if err := json.Unmarshal(data, &n); err != nil || n%2 != 0 {
		return errors.New("not even")
	}
	*e = even(n)
	return nil
}

func (even) Remedy() string { return "write 2" }

type target struct {
	Name  string            `json:"name"`
	Count int               `json:"count"`
	Share float64           `json:"share"`
	On    bool              `json:"on"`
	Even  even              `json:"even"`
	Ptr   *int              `json:"ptr"`
	Words []string          `json:"words"`
	Vars  map[string]string `json:"vars" jsonc:"scalars"`
	Free  map[string]any    `json:"free"`
	Inner struct {
		Deep string `json:"deep"`
	} `json:"inner"`
	hidden string
}

func TestDecode(t *testing.T) {
	got := target{Share: 7, On: true}
	doc, problems := Decode("f", []byte("\ufeff"+`// a comment
	{ "$schema": "x", "x-note": [1,],
	  "name": "a", "count": 3, "even": /* four */ 4, "ptr": 5, "words": ["b", "c",],
	  "vars": { "n": 1.50, "b": true, "s": "t" },
	  "free": { "x-kept": null, "n": 12345678901234567890, "list": [ { "a": false } ] },
	  "inner": { "deep": "d" } }`), &got)
	if len(problems) > 0 || doc.Empty() {
		t.Fatal(problems)
	}
	five := 5
	want := target{
		Name: "a", Count: 3, Share: 7, On: true, Even: 4, Ptr: &five, Words: []string{"b", "c"},
		Vars: map[string]string{"n": "1.50", "b": "true", "s": "t"},
		Free: map[string]any{"x-kept": nil, "n": json.Number("12345678901234567890"), "list": []any{map[string]any{"a": false}}},
	}
	want.Inner.Deep = "d"
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{})); diff != "" {
		t.Error(diff)
	}
}

func TestDecode_collectsProblemsInOrder(t *testing.T) {
	got := target{hidden: "h"}
	_, problems := Decode("f", []byte(`{
  "namee": "a", "hidden": "x",
  "count": 1.5, "share": "half", "on": "yes",
  "even": 3, "even": 2,
  "words": ["b", 7], "vars": { "o": {} }, "free": [],
  "inner": { "deep": null, "Deep": "" },
  "ptr": 99999999999999999999
}`), &got)
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	want := []string{
		`f:2:3: namee: unknown key; did you mean "name"?`,
		`f:2:17: hidden: unknown key; known here: name, count, share, on, even, ptr, words, vars, free, inner`,
		`f:3:12: count: 1.5 is not a whole number; write one without a fraction`,
		`f:3:26: share: expected a number, found a string; write digits, without quotes`,
		`f:3:40: on: expected a boolean, found a string; write true or false, without quotes`,
		`f:4:11: even: not even; write 2`,
		`f:4:14: even: duplicate key; keep one of them; the first is in line 4`,
		`f:5:18: words[1]: expected a string, found a number; write it in quotes`,
		`f:5:37: vars.o: expected a string, number or boolean, found an object; write one text in quotes in its place`,
		`f:5:51: free: expected an object, found a list; write it in braces: { … }`,
		`f:6:22: inner.deep: null is not a value; write a value, or leave the key out`,
		`f:6:28: inner.Deep: unknown key; did you mean "deep"?`,
		`f:7:10: ptr: 99999999999999999999 is out of range; write a whole number that is nearer to 0`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if got.Words[0] != "b" {
		t.Error("what fits was not filled in")
	}
}

func TestDocument_places(t *testing.T) {
	var got target
	doc, _ := Decode("f", []byte("{\n  \"free\": {\n    \"a.b\": [ 1,\n      2 ]\n  }\n}"), &got)
	var root Path
	list := root.Key("free").Key("a.b")
	for _, c := range []struct {
		problem Problem
		want    string
	}{
		{doc.Problem(list.Index(1), "m", ""), `f:4:7: free["a.b"][1]: m`},
		{doc.KeyProblem(list, "m", "r"), `f:3:5: free["a.b"]: m; r`},
		{doc.Problem(list.Index(9).Key("x"), "m", ""), `f:3:12: free["a.b"][9].x: m`},
		{doc.Problem(root.Key("missing"), "m", ""), `f:1:1: missing: m`},
	} {
		if got := c.problem.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if !doc.Has(list.Index(1)) || doc.Has(list.Index(2)) || doc.Has(root.Key("name")) {
		t.Error("Has is wrong")
	}
}

func TestDecode_isBounded(t *testing.T) {
	var got map[string]any
	for name, text := range map[string]string{
		"open brackets":       strings.Repeat("[", MaxBytes),
		"brackets in strings": `{"a": "` + strings.Repeat("[", 1000) + `"`,
		"open string":         `{"a": "\`,
		"open comment":        `{ /* `,
		"lone slash":          `{ / }`,
	} {
		if _, problems := Decode("f", []byte(text), &got); len(problems) != 1 {
			t.Errorf("%s: %d problems", name, len(problems))
		}
	}
	many := "{" + strings.Repeat(`"a":1,`, 100_000) + "}"
	if _, problems := Decode("f", []byte(many), &got); len(problems) != maxProblems+1 {
		t.Errorf("%d problems of very many", len(problems))
	}
	fine := `{"a": "` + strings.Repeat("[{", 1000) + `" /* [[[ */ } // [`
	if _, problems := Decode("f", []byte(fine), &got); len(problems) != 0 {
		t.Errorf("brackets in text count: %v", problems)
	}
}

// TestProblems_oneLineEach: what stands in a document does nothing to the terminal or the
// log in which its problems are read.
func TestProblems_oneLineEach(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a control character in a string": {"{\"name\": \"Ot\x01ago\"}", `f:1:10: invalid literal: "Ot\x01ago"; correct the syntax: JSON, with // and /* */ comments and trailing commas`},
		"an escape in a string":           {"{\"name\": \"\x1b[31mred\"}", `f:1:10: invalid literal: "\x1b[31mred"; correct the syntax: JSON, with // and /* */ comments and trailing commas`},
		"a line break in a string":        {"{\"name\": \"a\nb\"}", `f:1:10: invalid literal: "a\nb"; correct the syntax: JSON, with // and /* */ comments and trailing commas`},
		"a change of direction":           {"{\"on\": \u202eesrever}", `f:1:8: invalid character '\u202e' at start of value; correct the syntax: JSON, with // and /* */ comments and trailing commas`},
		"a control character in a key":    {`{"k\u001b[0m": 1}`, `f:1:2: ["k\x1b[0m"]: unknown key; known here: name, count, share, on, even, ptr, words, vars, free, inner`},
	} {
		var got target
		_, problems := Decode("f", []byte(c.text), &got)
		if text := problems.Error(); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"zone", "region", "subnet_pool", "size"}
	for name, want := range map[string]string{
		"zoen": "zone", "subnet-pool": "subnet_pool", "subnetpool": "subnet_pool", "sizes": "size", "flavour": "", "x": "", "": "",
		strings.Repeat("z", 1000): "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name": "a", "vars": {"a": 1}, "free": {"x": [1, {}]}, "inner": {}}`))
	f.Add([]byte("// x\n{,}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got target
		doc, problems := Decode("f", data, &got)
		for i, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("problem %d has no place or message: %+v", i, p)
			}
		}
		plain, err := Standard("f", data)
		if (err == nil) && !json.Valid(plain) {
			t.Errorf("not JSON: %q", plain)
		}
		if doc.Empty() && len(problems) == 0 {
			t.Error("nothing, and no problem")
		}
	})
}
