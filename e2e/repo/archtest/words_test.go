package archtest

import (
	"regexp"
	"strings"
	"testing"

	"nstance.dev/e2e/repo/texts"
)

// dialect are words that this project has used for what Kubernetes, the clouds or Go have a
// word for, with that word. Texts that people read do not use them: who reads one at three in
// the morning has to understand it, and to find it with a search engine.
var dialect = []struct {
	pattern, instead string
	// but are texts in which the word has another meaning, which is right.
	but []string
}{
	{pattern: `\breigns?\b`, instead: "term, leadership"},
	{pattern: `\bweigh(s|ed|ing)?\b|\bverdicts?\b`, instead: "evaluate, evaluation", but: []string{"verdict TEXT"}},
	{pattern: `\bsuppl(y|ies)\b`, instead: "launch inputs", but: []string{"power supply"}},
	{pattern: `\bflying\b|\btaken off\b`, instead: "in flight"},
	{pattern: `\bentomb|\bbur(y|ies|ied)\b`, instead: "tombstone; delete the record"},
	{pattern: `\binquir`, instead: "dependency, lookup"},
	{pattern: `\b(comes?|came) to nothing\b|\bstumbl`, instead: "failed launch; circuit breaker"},
	{pattern: `\bhollow\b|\btwins?\b|\blet be\b`, instead: "orphaned, duplicate, complete"},
	{pattern: `\blet(s)? go\b`, instead: "remove the finalizer"},
	{pattern: `\bauthorities\b`, instead: "CA bundle"},
	{pattern: `\bwho it is\b|\bthe way to\b`, instead: "credentials, kubeconfig"},
	{pattern: `\bstays?\b[,;]`, instead: "is immutable"},
	{pattern: `\bis none(;| of)`, instead: "must be one of"},
	{pattern: `\banew\b|\blater and later\b`, instead: "restart, again, with exponential back-off"},
	{pattern: `\bholds? (it|that|them|a group|the group)[a-z' ]*back\b|\bheld back by\b`, instead: "block, blocked by"},
	{pattern: `\bon (its|their) way (up|out|in)\b`, instead: "starting, leaving"},
	{pattern: `\bmakes? room for\b`, instead: "is replaced by"},
	{pattern: `\bheirs?\b|\bsuccessions?\b`, instead: "replacement"},
	{pattern: `\bnot there\b`, instead: "does not exist"},
	{pattern: `\bany more\b`, instead: "no longer"},
	{pattern: `\bwith teeth\b|\bweather\b|\bdeeds?\b|\bstrangers?\b`, instead: "fault-injecting fake, faults, calls"},
	{pattern: `\ba person\b|\bpeople\b`, instead: "user, administrator"},
	{pattern: `\bsomebody\b|\banybody\b|\bnobody\b`, instead: "user, administrator; another writer"},
}

// What is said to people is said in the field's words.
func TestTextsUseTheFieldsWords(t *testing.T) {
	root, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := texts.Collect(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 1000 {
		t.Fatalf("%d texts are found: they are looked for in the wrong place", len(all))
	}
	for _, d := range dialect {
		pattern := regexp.MustCompile(`(?i)` + d.pattern)
		for _, text := range all {
			if !pattern.MatchString(text.Text) || excused(text.Text, d.but) {
				continue
			}
			t.Errorf("%s: %q: say it with %s", text.Package, text.Text, d.instead)
		}
	}
}

func excused(text string, but []string) bool {
	for _, b := range but {
		if strings.Contains(text, b) {
			return true
		}
	}
	return false
}
