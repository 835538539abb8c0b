package output_test

import (
	"bytes"
	"strings"
	"testing"

	"nstance.dev/admin/output"
)

func set(t *testing.T, text string) output.Format {
	t.Helper()
	var f output.Format
	if err := f.Set(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

func TestTemplatesOfLists(t *testing.T) {
	for text, want := range map[string]string{
		"jsonpath={.items[*].instance_id}":                                   "knc1 knc23\n",
		`jsonpath={range .items[*]}{.instance_id}={.status}{"\n"}{end}`:      "knc1=running\nknc23=a\tb\nc\n",
		"jsonpath=items[0].addresses[0]":                                     "10.0.0.1\n",
		"jsonpath={.items[*].nothing}":                                       "",
		"go-template={{range .items}}{{.instance_id}} {{end}}":               "knc1 knc23 \n",
		"go-template={{len .items}}":                                         "2\n",
		"custom-columns=ID:.instance_id,STATUS:status,FIRST:{.addresses[0]}": "ID      STATUS    FIRST\nknc1    running   10.0.0.1\nknc23   a b c     -\n",
	} {
		var b strings.Builder
		if err := output.List(&b, set(t, text), view, instances("")); err != nil || b.String() != want {
			t.Errorf("%s: %q, want %q (%v)", text, b.String(), want, err)
		}
	}
}

func TestTemplatesOfObjectsAndStreams(t *testing.T) {
	var b strings.Builder
	if err := output.Object(&b, set(t, "jsonpath={.shard}/{.instance_id}"), view, instances("s1")[0]); err != nil || b.String() != "s1/knc1\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	b.Reset()
	stream := output.NewStream(&b, set(t, "custom-columns=ID:.instance_id"), view)
	for _, item := range instances("") {
		if err := stream.Print(item); err != nil {
			t.Fatal(err)
		}
	}
	if b.String() != "ID\nknc1\nknc23\n" {
		t.Errorf("%q", b.String())
	}
}

func TestTemplatesThatAreWrongAreRefused(t *testing.T) {
	var f output.Format
	for text, want := range map[string]string{
		"jsonpath":                  "the template is missing",
		"jsonpath=":                 "the template is missing",
		"jsonpath={.a":              "jsonpath: unclosed",
		"go-template={{.a":          "go-template: ",
		"custom-columns=A":          `"A" must be of the form HEADER:PATH`,
		"custom-columns=A:.a,B:":    `"B:" must be of the form HEADER:PATH`,
		"json=x":                    "must be one of",
		"jsonpath-file=/etc/passwd": "must be one of",
	} {
		if err := f.Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	some := output.Offering(output.Table, output.JSON)
	if err := some.Set("yaml"); err == nil || !strings.Contains(err.Error(), "must be one of table, json") {
		t.Errorf("error is %v", err)
	}
	if err := some.Set("jsonpath={.a}"); err == nil {
		t.Error("a template is taken that is not offered")
	}
}

func TestHeadersCanBeLeftOut(t *testing.T) {
	var b bytes.Buffer
	format := output.As(output.Table)
	format.NoHeaders = true
	if err := output.List(&b, format, view, instances("")); err != nil || b.String() != "knc1    running\nknc23   a b c\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	b.Reset()
	if err := output.NewStream(&b, format, view).Print(instances("")...); err != nil || b.String() != "knc1    running\nknc23   a b c\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestSort(t *testing.T) {
	for field, want := range map[string]string{
		"instance_id": "knc1 knc23", ".status": "knc23 knc1", "revision": "knc23 knc1", "{.created_at}": "knc23 knc1", "addresses[0]": "knc23 knc1",
	} {
		var b strings.Builder
		format := set(t, "jsonpath={.items[*].instance_id}")
		format.SortBy = field
		if err := output.List(&b, format, view, instances("")); err != nil || strings.TrimSpace(b.String()) != want {
			t.Errorf("%s: %q, %v", field, b.String(), err)
		}
	}
	err := output.Sort(instances(""), "AGE")
	if err == nil || !strings.Contains(err.Error(), "nothing in the list has this field; the fields are addresses, agent_version") {
		t.Errorf("error is %v", err)
	}
	if err := output.Sort(instances("")[:0], "AGE"); err != nil {
		t.Errorf("an empty list: %v", err)
	}
}

func TestSelector(t *testing.T) {
	for text, want := range map[string]string{
		"": "knc1 knc23", "status=running": "knc1", "status!=running": "knc23", "tenant in (default,b)": "knc1", "on_demand=false": "knc1 knc23", "shard=s1": "knc1 knc23",
	} {
		var s output.Selector
		if err := s.Set(text); err != nil {
			t.Fatal(err)
		}
		chosen, err := output.Choose(s, instances("s1"))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, item := range chosen {
			ids = append(ids, item.Message.GetInstanceId())
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%q chooses %q, want %q", text, got, want)
		}
	}
	var s output.Selector
	if err := s.Set("a=b=c"); err == nil {
		t.Error("a selector is taken that cannot be read")
	}
}
