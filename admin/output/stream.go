package output

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Stream prints items as they come, one line each: in JSON one object per line,
// in YAML one document each, by a template one result each. It is safe for concurrent use.
type Stream[T any] struct {
	// Keep says whether an item is printed; nil: all are.
	Keep func(Item[T]) (bool, error)

	w      io.Writer
	format Format
	view   View[T]

	mu      sync.Mutex
	widths  []int // of the table's columns so far; nil before the header
	printed bool  // by a template
}

// NewStream returns a stream that prints to w.
func NewStream[T any](w io.Writer, format Format, view View[T]) *Stream[T] {
	return &Stream[T]{w: w, format: format, view: view}
}

// Print prints items, whose columns line up with each other and, as far as they
// are wide enough, with those before.
func (s *Stream[T]) Print(items ...Item[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	items, err := s.kept(items)
	if err != nil || len(items) == 0 {
		return err
	}
	switch s.format.Shape() {
	case JSON:
		for _, item := range items {
			if err := s.document(item); err != nil {
				return err
			}
		}
		return nil
	case Name:
		for _, item := range items {
			if _, err := fmt.Fprintln(s.w, s.view.Name(item.Message)); err != nil {
				return err
			}
		}
		return nil
	}
	return s.rows(items)
}

func (s *Stream[T]) kept(items []Item[T]) ([]Item[T], error) {
	if s.Keep == nil {
		return items, nil
	}
	var kept []Item[T]
	for _, item := range items {
		ok, err := s.Keep(item)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// rows prints a header too if there has been none.
func (s *Stream[T]) rows(items []Item[T]) error {
	var rows [][]string
	if s.widths == nil && len(items) > 0 {
		headers := s.view.headers(s.format, anyShard(items))
		s.widths = make([]int, len(headers))
		if !s.format.NoHeaders {
			rows = append(rows, headers)
		}
	}
	for _, item := range items {
		rows = append(rows, s.view.cells(s.format, item))
	}
	for _, cells := range rows {
		for i, c := range cells {
			s.widths[i] = max(s.widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, cells := range rows {
		if err := s.row(cells); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream[T]) document(item Item[T]) error {
	data, err := marshal(item)
	if err != nil {
		return err
	}
	switch s.format.Kind() {
	case JSONPath, GoTemplate, CustomColumns:
		format := s.format
		format.NoHeaders = format.NoHeaders || s.printed
		s.printed = true
		return format.byTemplate(s.w, data)
	case YAML:
		if data, err = yaml.JSONToYAML(data); err != nil {
			return fmt.Errorf("print yaml: %w", err)
		}
		_, err = fmt.Fprintf(s.w, "---\n%s", data)
		return err
	default: // JSON
	}
	_, err = fmt.Fprintf(s.w, "%s\n", data)
	return err
}

func (s *Stream[T]) row(cells []string) error {
	var b strings.Builder
	for i, c := range cells[:len(cells)-1] {
		fmt.Fprintf(&b, "%-*s", s.widths[i]+3, c)
	}
	_, err := fmt.Fprintln(s.w, b.String()+cells[len(cells)-1])
	return err
}
