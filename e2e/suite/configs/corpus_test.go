package configs_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	aws "nstance.dev/providers/aws/rules"
	gcp "nstance.dev/providers/gcp/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/driver"
)

// The corpus is a table of broken and odd documents, testdata/corpus/table.txt. Each line
// replaces a part of base.jsonc beside it, or of the document "raw", which is the new
// text alone. Beside these lines, every member of base.jsonc is replaced by a few values
// of other kinds, in turn. What comes of each document stands in two files: verdicts.txt
// has whether it is valid, and where its problems are; texts.txt what is said about them.
// Both are written anew by -update; the diff is the review.

// corpusDocument is one of the corpus.
type corpusDocument struct{ name, text string }

// kinds are what takes the place of each member, by a name.
var kinds = []struct{ name, value string }{
	{"null", "null"}, {"an object", `{"k": 1}`}, {"a list", `["a", "a"]`}, {"a number", "-7"}, {"a huge number", "1e30"},
	{"a boolean", "true"}, {"an empty text", `""`}, {"an odd text", `"\u001b[31m../x {{ .No }}"`},
}

func corpus(t *testing.T) (all []corpusDocument) {
	t.Helper()
	base := readFile(t, "corpus/base.jsonc")
	seen := map[string]bool{}
	for n, line := range strings.Split(readFile(t, "corpus/table.txt"), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, change, ok := strings.Cut(line, ": ")
		from, to, both := strings.Cut(change, " => ")
		if !ok || !both || seen[name] {
			t.Fatalf("table.txt:%d: not a line of the form NAME: OLD => NEW, or a second one of that name: %s", n+1, line)
		}
		seen[name] = true
		to = escapes.Replace(to)
		switch {
		case from == "raw":
			all = append(all, corpusDocument{name, to})
		case !strings.Contains(base, from):
			t.Fatalf("table.txt:%d: base.jsonc has no %s", n+1, from)
		default:
			all = append(all, corpusDocument{name, strings.Replace(base, from, to, 1)})
		}
	}
	for _, m := range membersOf(t, base) {
		for _, kind := range kinds {
			all = append(all, corpusDocument{m.path + " is " + kind.name, base[:m.from] + kind.value + base[m.to:]})
		}
	}
	return all
}

// escapes are what a line of the table can't hold.
var escapes = strings.NewReplacer(`<LF>`, "\n", `<CR>`, "\r", `<NUL>`, "\x00", `<ESC>`, "\x1b", `<FF>`, "\xff", `<LONG>`, strings.Repeat("x", 300),
	`<DEEP>`, strings.Repeat("[", 100), `<MANY>`, strings.TrimSuffix(strings.Repeat(`{"a": 1},`, 600), ","))

// member is where the value of a member stands.
type member struct {
	path     string
	from, to int
}

// membersOf are all members of objects in a text whose lines have at most one each: the
// value ends before the comma, brace or bracket that ends the line.
func membersOf(t *testing.T, text string) (all []member) {
	t.Helper()
	var path []string
	offset := 0
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch name, value, ok := strings.Cut(trimmed, ": "); {
		case strings.HasPrefix(trimmed, "}"), strings.HasPrefix(trimmed, "]"):
			path = path[:max(len(path)-1, 0)]
		case ok && strings.HasPrefix(name, `"`):
			key, err := strconv.Unquote(name)
			if err != nil {
				t.Fatal(err)
			}
			whole := append(slices.Clone(path), key)
			if value == "{" {
				path = whole
				break
			}
			from := offset + strings.Index(line, ": ") + 2
			all = append(all, member{strings.Join(whole, "."), from, from + len(strings.TrimSuffix(value, ","))})
		}
		offset += len(line)
	}
	if len(all) < 50 {
		t.Fatalf("base.jsonc has %d members on lines of their own", len(all))
	}
	return all
}

// TestF50_Corpus pins what is said about each document of the corpus. None may be refused
// without a place, and what validates is complete.
func TestF50_Corpus(t *testing.T) {
	var verdicts, texts bytes.Buffer
	documents, refused := corpus(t), 0
	rules := corpusRules()
	for _, d := range documents {
		cfg, err := config.Load("f", []byte(d.text), config.LoadOptions{
			Shard: "us-1", Storage: "s3", Rules: rules, Providers: []*driver.Rules{gcp.New()},
		})
		fmt.Fprintf(&verdicts, "%s:", d.name)
		if err == nil {
			fmt.Fprintf(&verdicts, " valid, %d warnings\n", len(cfg.Warnings))
			if _, problems := effective.Groups(cfg, nil); len(problems) > 0 {
				t.Errorf("%s: valid, and %v", d.name, problems)
			}
			continue
		}
		refused++
		var problems jsonc.Problems
		if !errors.As(err, &problems) {
			t.Fatalf("%s: %v is not a list of problems", d.name, err)
		}
		writeProblems(t, d.name, problems, &verdicts, &texts)
	}
	t.Logf("%d documents, %d refused", len(documents), refused)
	golden(t, "corpus/verdicts.txt", verdicts.Bytes())
	golden(t, "corpus/texts.txt", texts.Bytes())
}

func writeProblems(t *testing.T, name string, problems jsonc.Problems, verdicts, texts *bytes.Buffer) {
	t.Helper()
	fmt.Fprintf(texts, "%s\n", name)
	for i, p := range problems {
		if p.Line < 1 || p.Column < 1 || p.Remedy == "" && p.Path == "" {
			t.Errorf("%s: a problem without a place or a remedy: %v", name, p)
		}
		if i > 0 {
			verdicts.WriteString(",")
		}
		fmt.Fprintf(verdicts, " %s at %d:%d", orDocument(p.Path), p.Line, p.Column)
		fmt.Fprintf(texts, "  %s; %s\n", p.Message, p.Remedy)
	}
	verdicts.WriteString("\n")
}

func orDocument(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

// Each file under testdata/bad is a broken configuration; beside it lies all
// that is to be said about it.
func TestF50_everyProblemAtOnce(t *testing.T) {
	entries, err := os.ReadDir("testdata/bad")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name, isInput := strings.CutSuffix(entry.Name(), ".jsonc")
		if !isInput {
			continue
		}
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(name+".jsonc", []byte(readFile(t, "bad/"+entry.Name())), config.LoadOptions{
				Storage: "gcs", Rules: corpusRules(), Providers: []*driver.Rules{gcp.New()},
			})
			if err == nil {
				t.Fatal("no problems")
			}
			golden(t, "bad/"+name+".txt", []byte(err.Error()+"\n"))
		})
	}
}

// corpusRules are those of a server for AWS, but for arguments and instance types, which the
// corpus has of its own.
func corpusRules() *driver.Rules {
	own := aws.New()
	return &driver.Rules{
		Kind: own.Kind, CheckLoadBalancer: own.CheckLoadBalancer, CheckLeaderNetwork: own.CheckLeaderNetwork,
		ForbiddenArgs: []string{"UserData"},
		CheckInstanceType: func(typ, arch string) error {
			if strings.HasPrefix(typ, "t4g.") == (arch == "arm64") {
				return nil
			}
			if strings.HasPrefix(typ, "odd.") {
				return driver.ErrUnknownType
			}
			return fmt.Errorf("%s is not of architecture %s", typ, arch)
		},
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file under testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile("testdata/"+name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(readFile(t, name), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", name, diff)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
