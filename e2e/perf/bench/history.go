package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"
)

// Past is what a number was in one run.
type Past struct {
	Commit  string  `json:"commit"`
	Date    string  `json:"date"`
	Machine string  `json:"machine"` // its processor and how many cores it has
	Measure string  `json:"measure"`
	Name    string  `json:"name"`
	Ours    float64 `json:"ours"`
	Ratio   float64 `json:"ratio"` // of ours to the floor
}

// named is by how much a ratio has to change to be told.
const named = 0.05

// History is a file with one [Past] on a line, the oldest first.
type History string

// Read returns what the file holds; a file that does not exist holds nothing.
func (h History) Read() (all []Past, err error) {
	data, err := os.ReadFile(string(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for n, text := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var p Past
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", h, n+1, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Add appends the rows of a run that have a number.
func (h History) Add(s Setting, rows []Row) error {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, r := range rows {
		if p, ok := r.past(s); ok {
			if err := lines.Encode(p); err != nil {
				return err
			}
		}
	}
	f, err := os.OpenFile(string(h), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	return errors.Join(err, f.Close())
}

// past is the row as a line of the history; false: it has no number.
func (r Row) past(s Setting) (Past, bool) {
	if r.Err != nil || math.IsNaN(r.Ratio()) || math.IsInf(r.Ratio(), 0) {
		return Past{}, false
	}
	name, _, _ := strings.Cut(r.Name, " (") // what stands in brackets is another number of the same run
	return Past{
		Commit: s.Commit, Date: s.Date.UTC().Format(time.DateOnly), Machine: s.Machine, Measure: r.Measure, Name: name, Ours: r.Ours, Ratio: r.Ratio(),
	}, true
}

// Changes says which ratios of a run differ by more than a twentieth from the last ones that were
// measured on such a machine.
func Changes(past []Past, s Setting, rows []Row) (notes []string) {
	for _, r := range rows {
		now, ok := r.past(s)
		if !ok {
			continue
		}
		for i := len(past) - 1; i >= 0; i-- {
			was := past[i]
			if was.Measure != now.Measure || was.Name != now.Name || was.Machine != now.Machine {
				continue
			}
			if change := now.Ratio/was.Ratio - 1; math.Abs(change) > named {
				notes = append(notes, fmt.Sprintf("%s, %s: %+.0f %% since %s (%s): %.2f, was %.2f", now.Measure, now.Name, change*100, was.Commit, was.Date, now.Ratio, was.Ratio))
			}
			break
		}
	}
	return notes
}
