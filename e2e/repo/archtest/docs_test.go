package archtest

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fenced     = regexp.MustCompile("(?ms)^```.*?^```")
	indented   = regexp.MustCompile(`(?m)^ {4}.*$`)
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	runBy      = regexp.MustCompile(`(?m)^ *<!-- run by: .* -->$`) // nobody sees it
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// pages returns the text of the pages for readers, by path: those at the root and
// in docs. Other Markdown is made into pages, or read by tests.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root, paths := trackedFiles(t)
	found := map[string]string{}
	for _, p := range paths {
		if !strings.HasSuffix(p, ".md") || strings.Contains(p, "/") && !strings.HasPrefix(p, "docs/") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, p))
		if err == nil { // else deleted, and not committed yet
			found[p] = string(data)
		}
	}
	if found["README.md"] == "" || found["docs/operations.md"] == "" {
		t.Fatal("README.md or docs/operations.md is missing")
	}
	return found
}

func TestLinksInPagesResolve(t *testing.T) {
	root, _ := trackedFiles(t)
	all := pages(t)
	for _, page := range slices.Sorted(maps.Keys(all)) {
		text := inlineCode.ReplaceAllString(fenced.ReplaceAllString(all[page], ""), "")
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			at := page
			if target != "" {
				at = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(at))); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, found[1])
			} else if anchor != "" && !anchors(all[at])[anchor] {
				t.Errorf("%s: %s has no heading for the link %s", page, at, found[1])
			}
		}
	}
}

// anchors are the names that links to the headings of a page have.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(indented.ReplaceAllString(fenced.ReplaceAllString(text, ""), ""), -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(found[1])), "")
		names[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return names
}

func TestPagesNameEveryMetric(t *testing.T) {
	documented := all(`(?m)^\| .(nstance_[a-z_]+)`, pages(t)["docs/operations.md"])
	compareNames(t, "docs/operations.md", "metric", documented, inSource(t, `"(nstance_[a-z_]+)"`))
}

func TestPagesNameEveryReasonOfAnError(t *testing.T) {
	_, table, _ := strings.Cut(pages(t)["docs/api.md"], "\n## Errors\n")
	documented := all("`([A-Z]+(?:_[A-Z]+)*)`", table)
	compareNames(t, "docs/api.md", "reason", documented, inSource(t, `(?:refusal\.[A-Z]\w+, (?:Reason: )?|\breason[A-Z]\w* = )"([A-Z_]+)"`))
}

// all returns what the first group of a pattern finds.
func all(pattern, text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return found
}

// inSource returns what the pattern finds in the server's source, tests left out.
func inSource(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	root, paths := trackedFiles(t)
	found := map[string]bool{}
	for _, p := range paths {
		if !strings.HasPrefix(p, "server/") || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, p))
		if err == nil { // else deleted, and not committed yet
			maps.Copy(found, all(pattern, string(data)))
		}
	}
	return found
}

func compareNames(t *testing.T, page, what string, documented, actual map[string]bool) {
	t.Helper()
	if len(actual) < 5 {
		t.Fatalf("%d %ss found in the source: the test looks for the wrong thing", len(actual), what)
	}
	for name := range actual {
		if !documented[name] {
			t.Errorf("%s lacks the %s %s", page, what, name)
		}
	}
	for name := range documented {
		if !actual[name] {
			t.Errorf("%s names the %s %s, which the server does not have", page, what, name)
		}
	}
}

// invariantRow is a row of a table of invariants: its number, and where it stands.
var invariantRow = regexp.MustCompile(`(?m)^\| ([SLEFOPM][0-9]+) \|.*\| ([^|]+) \|$`)

// invariants returns where each invariant of docs/invariants.md stands, by number.
func invariants(t *testing.T) map[string]string {
	t.Helper()
	stands := map[string]string{}
	for _, row := range invariantRow.FindAllStringSubmatch(pages(t)["docs/invariants.md"], -1) {
		if stands[row[1]] != "" {
			t.Errorf("docs/invariants.md lists %s twice", row[1])
		}
		stands[row[1]] = row[2]
	}
	return stands
}

func TestInvariantsAreListedOnce(t *testing.T) {
	stands := invariants(t)
	for letter, last := range map[string]int{"S": 23, "L": 11, "E": 12, "F": 52, "O": 19, "P": 16} {
		for i := 1; i <= last; i++ {
			if number := fmt.Sprint(letter, i); stands[number] == "" {
				t.Errorf("docs/invariants.md lacks %s", number)
			}
		}
	}
	for p, lines := range declarations(t) {
		for _, number := range citations(lines) {
			if strings.HasPrefix(stands[number], "later") {
				t.Errorf("%s shows %s, of which docs/invariants.md says that it comes later", p, number)
			}
		}
	}
}

// TestPageOfFailuresCitesTests keeps the pages of failures honest: for each row docs/failures-shown.md
// names tests, and each test that it names is there.
func TestPageOfFailuresCitesTests(t *testing.T) {
	exist := map[string]bool{}
	for _, lines := range declarations(t) {
		maps.Copy(exist, all(`(?m)^func (Test\w+)\(`, lines))
	}
	shown := pages(t)["docs/failures-shown.md"]
	for page, begins := range map[string]string{"docs/failures.md": "\n## The bucket\n", "docs/demand/failures.md": "\n## The cluster and its operator\n"} {
		_, rows, _ := strings.Cut(shown, "\n## "+page+"\n")
		rows, _, _ = strings.Cut(rows, "\n## ")
		citesTests(t, page, begins, rows, exist)
	}
}

var rowOfFailures = regexp.MustCompile(`(?m)^\| ([^|\n]+) \| (.*)$`)

func citesTests(t *testing.T, page, begins, shown string, exist map[string]bool) {
	t.Helper()
	_, details, _ := strings.Cut(pages(t)[page], begins)
	said := map[string]bool{}
	for _, row := range rowOfFailures.FindAllStringSubmatch(details, -1) {
		said[strings.ReplaceAll(row[1], "](../", "](")] = true
	}
	delete(said, "goes")
	if len(said) < 15 {
		t.Fatalf("%s: %d rows found: the test looks for the wrong thing", page, len(said))
	}
	has := map[string]bool{}
	for _, row := range rowOfFailures.FindAllStringSubmatch(shown, -1) {
		if row[1] == "goes" {
			continue
		}
		has[row[1]] = true
		cited := all("`(Test\\w+)`", row[2])
		if len(cited) == 0 {
			t.Errorf("docs/failures-shown.md: no test shows what %s says: %s", page, row[1])
		}
		for name := range cited {
			if !exist[name] {
				t.Errorf("docs/failures-shown.md: there is no %s", name)
			}
		}
	}
	for row := range said {
		if !has[row] {
			t.Errorf("docs/failures-shown.md has no row %q of %s", row, page)
		}
	}
	for row := range has {
		if !said[row] {
			t.Errorf("%s has no row %q of docs/failures-shown.md", page, row)
		}
	}
}

// developerPages name tests; those for users do not, nor functions that only developers know.
var developerPages = []string{"CONTRIBUTING.md", "CHANGELOG.md", "docs/testing.md", "docs/invariants.md", "docs/failures-shown.md", "docs/architecture.md", "docs/decisions/"}

func TestPagesForUsersNameNoTests(t *testing.T) {
	test := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*[a-z]\w*`)
	for page, text := range pages(t) {
		if slices.ContainsFunc(developerPages, func(p string) bool { return strings.HasPrefix(page, p) }) {
			continue
		}
		if found := test.FindString(runBy.ReplaceAllString(text, "")); found != "" {
			t.Errorf("%s names %s: what shows a promise stands on a page for developers", page, found)
		}
	}
}

// TestPageOfDemandModeNamesEveryReason: of actions, of shortfalls, and the stories that it tells of.
func TestPageOfDemandModeNamesEveryReason(t *testing.T) {
	root, _ := trackedFiles(t)
	reference := pages(t)["docs/demand/reference.md"]
	source, err := os.ReadFile(filepath.Join(root, "server", "demand", "action.go"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := all(`Reason = "([A-Za-z-]+)"`, string(source))
	if len(reasons) < 20 {
		t.Fatalf("%d reasons found: the test looks for the wrong thing", len(reasons))
	}
	for reason := range reasons {
		if !strings.Contains(reference, "\n| `"+reason+"` |") {
			t.Errorf("docs/demand/reference.md has no row for the reason %s", reason)
		}
	}
	for story := range all("`([a-z]+(?:-[a-z]+)+)`", pages(t)["docs/failures-shown.md"]) {
		if _, err := os.Stat(filepath.Join(root, "e2e", "sim", "demandsim", "testdata", story+".jsonl")); err != nil && story != "on-demand" {
			t.Errorf("docs/failures-shown.md tells of a story that there is not: %s", story)
		}
	}
}
