package conformance

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// written is a Report as programs read it.
type written struct {
	Subject    string                `json:"subject"`
	Verdicts   map[Profile]onProfile `json:"verdicts"`
	Behaviours []onBehaviour         `json:"behaviours"`
}

type onProfile struct {
	Verdict Verdict `json:"verdict"`
	Shown   int     `json:"shown"`
	Of      int     `json:"of"`
}

type onBehaviour struct {
	Behaviour
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"`
}

// JSON is the report with the catalogue's text.
func (r *Report) JSON() ([]byte, error) {
	w := written{Subject: r.subject, Verdicts: map[Profile]onProfile{}}
	for _, p := range Profiles {
		v, shown, all := r.Verdict(p)
		w.Verdicts[p] = onProfile{v, shown, all}
	}
	for _, b := range Catalogue {
		res := r.of(b.Number)
		w.Behaviours = append(w.Behaviours, onBehaviour{b, res.outcome, res.why})
	}
	data, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write report of %s: %w", r.subject, err)
	}
	return append(data, '\n'), nil
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Failure *junitReason `xml:"failure"`
	Skipped *junitReason `xml:"skipped"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
}

// JUnit is the report as the XML that systems for continuous integration read: one case for each behaviour.
func (r *Report) JUnit() ([]byte, error) {
	s := junitSuite{Name: "driver conformance of " + r.subject, Tests: len(Catalogue)}
	for _, b := range Catalogue {
		c := junitCase{Class: b.Area, Name: fmt.Sprintf("%d %s", b.Number, b.Says)}
		switch res := r.of(b.Number); res.outcome {
		case Failed:
			s.Failures++
			c.Failure = &junitReason{"the suite's test failed: its log says how"}
		case Unseen:
			s.Skipped++
			c.Skipped = &junitReason{res.why}
		case Shown:
		}
		s.Cases = append(s.Cases, c)
	}
	data, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write report of %s: %w", r.subject, err)
	}
	return append([]byte(xml.Header), append(data, '\n')...), nil
}

// Write puts both forms into a folder, as files that are called after the driver.
func (r *Report) Write(dir string) error {
	name := filepath.Join(dir, strings.NewReplacer("/", "-", " ", "-").Replace(r.subject))
	for ext, form := range map[string]func() ([]byte, error){".json": r.JSON, ".xml": r.JUnit} {
		data, err := form()
		if err != nil {
			return err
		}
		if err := os.WriteFile(name+ext, data, 0o600); err != nil {
			return fmt.Errorf("write report of %s: %w", r.subject, err)
		}
	}
	return nil
}
