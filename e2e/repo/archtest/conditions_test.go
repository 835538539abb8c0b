package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const pageOfConditions = "docs/reference/conditions.md"

// event is a call that publishes an event, up to its reason.
const event = `(?:Eventf\([^,\n]+,\s*[^,\n]+,\s*[^,\n]+,\s*`

// said are the words that the operator puts into conditions and events, by where they stand in its source.
var said = []struct{ files, pattern string }{
	{"operator/api/*/*/*.go", `(?m)^\s*Condition[A-Z]\w* += "([A-Z]\w+)"`},
	{"operator/api/*/*/*.go", `(?m)^\s*Reason[A-Z]\w* += "([A-Z][\w]+:?)"`},
	{"operator/api/*/*/*.go", `(?m)^\s*(?:const )?Event[A-Z]\w* += "([A-Z]\w+)"`},
	{"operator/demand/translate/warning.go", `\bReason = "([A-Z]\w+)"`},
	{"operator/controllers/*/*.go", event + `|PublishEvent\{(?:Reason: )?|PublishNodeEvent\{|(?:normal|warn)\(|\breason\w* += |infrav1\.Condition\w+, )"([A-Z][a-z]\w+)"`},
	{"operator/controllers/*/*.go", `\breport\(\w+, \w+, "([A-Z]\w+)"`},
	{"operator/controllers/*/*/*.go", event + `|Capacity\w+ += |MachineUpcoming += )"([A-Z][a-z]\w+)"`},
	{"operator/controllers/providererror/*.go", `(?m)^\s+"[a-z-]+": +"([A-Z]\w+)",`},
	{"operator/drain/*.go", event + `|PublishEvent\{Reason: )"([A-Z][a-z]\w+)"`},
	{"operator/manager/*.go", `\.(?:normal|warn)\(ctx, "([A-Z]\w+)"`},
	{"operator/manager/identity.go", `return "([A-Z]\w+)"`},
}

// TestPageOfConditionsNamesEveryReason: of each condition, reason and event that the operator writes the page
// says what it means and what to do, and it names none that no object can have.
func TestPageOfConditionsNamesEveryReason(t *testing.T) {
	root, _ := trackedFiles(t)
	actual := map[string]bool{}
	for _, place := range said {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(place.files)))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(found, all(place.pattern, string(data)))
		}
		if len(found) == 0 {
			t.Errorf("nothing in %s is like %s: the test looks for the wrong thing", place.files, place.pattern)
		}
		maps.Copy(actual, found)
	}
	text, err := os.ReadFile(filepath.Join(root, pageOfConditions))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]\\w+:?)`(.*)$").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = true
		if cells := strings.Split(strings.TrimSuffix(row[2], "|"), "|"); slices.ContainsFunc(cells[1:], func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("%s: the row of %s has an empty cell", pageOfConditions, row[1])
		}
	}
	if len(actual) < 200 {
		t.Fatalf("%d conditions, reasons and events found in the source: the test looks for the wrong thing", len(actual))
	}
	for _, name := range slices.Sorted(maps.Keys(actual)) {
		if !documented[name] {
			t.Errorf("%s lacks %s: add a row with its meaning and what to do", pageOfConditions, name)
		}
	}
	source := operatorSource(t)
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("%s names %s, which the operator does not say", pageOfConditions, name)
		}
	}
}

// kindsOfControllers are the kinds whose conditions a controller writes, by its directory.
var kindsOfControllers = map[string]string{
	"machine": "NstanceMachine", "node": "NstanceMachine", "shardgroup": "NstanceShardGroup", "machinepool": "NstanceMachinePool",
	"machinetemplate": "NstanceMachineTemplate", "cluster": "NstanceCluster", "importer": "NstanceCluster",
}

// TestPageOfConditionsSaysWhichConditionHasAReason: where the source gives a condition a reason by their names, the row of
// the reason names the condition, with its kind.
func TestPageOfConditionsSaysWhichConditionHasAReason(t *testing.T) {
	root, paths := trackedFiles(t)
	text, err := os.ReadFile(filepath.Join(root, pageOfConditions))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Reasons\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|([^|]*)\\|").FindAllStringSubmatch(section, -1) {
		rows[row[1]] = row[2]
	}
	said := regexp.MustCompile(`status\.(?:True|False|Unknown)\(\s*(?:infrav1\.)?(\w+),\s*infrav1\.(Reason\w+)`)
	local := regexp.MustCompile(`const (\w+) = infrav1\.(Condition\w+)`)
	words := wordsOfTheAPI(t)
	pairs := 0
	for _, p := range paths {
		kind := kindsOfControllers[filepath.Base(filepath.Dir(p))]
		if kind == "" || filepath.Dir(filepath.Dir(p)) != "operator/controllers" || strings.HasSuffix(p, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		for function := range strings.SplitSeq(string(data), "\nfunc ") {
			names := map[string]string{}
			for _, c := range local.FindAllStringSubmatch(function, -1) {
				names[c[1]] = c[2]
			}
			for _, found := range said.FindAllStringSubmatch(function, -1) {
				name := found[1]
				if known, ok := names[name]; ok {
					name = known
				}
				condition, of := words[name], kind
				if name == "ConditionAvailable" {
					of = "NstanceControlPlane"
				}
				pairs++
				if condition == "" {
					t.Errorf("%s: the condition of %q is not known", p, found[0])
				} else if !namesCondition(rows[words[found[2]]], of, condition) {
					t.Errorf("%s: the row of reason %s does not say that condition %s of %s has it", pageOfConditions, words[found[2]], condition, of)
				}
			}
		}
	}
	if pairs < 90 {
		t.Fatalf("%d conditions with a reason found in the source: the test looks for the wrong thing", pairs)
	}
}

// namesCondition reports whether a cell as "Kind: `A`, `B`; Kind: `C`" names a condition of a kind.
func namesCondition(cell, kind, condition string) bool {
	for part := range strings.SplitSeq(cell, ";") {
		of, conditions, _ := strings.Cut(strings.TrimSpace(part), ": ")
		if of == kind && strings.Contains(conditions, "`"+condition+"`") {
			return true
		}
	}
	return false
}

// wordsOfTheAPI are the conditions and reasons of the operator's API, by the names of their constants.
func wordsOfTheAPI(t *testing.T) map[string]string {
	t.Helper()
	root, _ := trackedFiles(t)
	data, err := os.ReadFile(filepath.Join(root, "operator", "api", "infrastructure", "v1beta1", "conditions.go"))
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, c := range regexp.MustCompile(`(?m)^\s*((?:Condition|Reason)[A-Z]\w*) += "([A-Z]\w+)"`).FindAllStringSubmatch(string(data), -1) {
		words[c[1]] = c[2]
	}
	return words
}

// operatorSource is the operator's code, tests left out.
func operatorSource(t *testing.T) string {
	t.Helper()
	root, paths := trackedFiles(t)
	var all strings.Builder
	for _, p := range paths {
		if !strings.HasPrefix(p, "operator/") || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, p))
		if err == nil { // else deleted, and not committed yet
			all.Write(data)
		}
	}
	return all.String()
}
