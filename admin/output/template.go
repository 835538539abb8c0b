package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

// printer prints documents by a template of its own.
type printer interface {
	// list prints a list, object prints one object, whose fields have the names of
	// their JSON.
	list(w io.Writer, items []any, headers bool) error
	object(w io.Writer, item any, headers bool) error
}

func parseTemplate(kind Kind, text string) (printer, error) {
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("the template is missing; write -o '%s=…'", kind)
	}
	switch kind {
	case JSONPath:
		path, err := parsePath(text)
		if err != nil {
			return nil, err
		}
		return pathPrinter{path}, nil
	case GoTemplate:
		t, err := template.New("output").Parse(text)
		if err != nil {
			return nil, err
		}
		return goPrinter{t}, nil
	default:
		return parseColumns(text)
	}
}

// parsePath reads a JSONPath template. Where it has no braces at all, it is one
// expression, and a leading dot may be left out.
func parsePath(text string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(text, "{") {
		if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "$") {
			text = "." + text
		}
		text = "{" + text + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, err
	}
	return path, nil
}

func listOf(items []any) any { return map[string]any{"items": items} }

type pathPrinter struct{ path *jsonpath.JSONPath }

func (p pathPrinter) list(w io.Writer, items []any, _ bool) error {
	return p.object(w, listOf(items), false)
}

func (p pathPrinter) object(w io.Writer, item any, _ bool) error {
	var out bytes.Buffer
	if err := p.path.Execute(&out, item); err != nil {
		return fmt.Errorf("jsonpath: %w", err)
	}
	return line(w, out.Bytes())
}

type goPrinter struct{ template *template.Template }

func (p goPrinter) list(w io.Writer, items []any, _ bool) error {
	return p.object(w, listOf(items), false)
}

func (p goPrinter) object(w io.Writer, item any, _ bool) error {
	var out bytes.Buffer
	if err := p.template.Execute(&out, item); err != nil {
		return fmt.Errorf("go-template: %w", err)
	}
	return line(w, out.Bytes())
}

// line ends text with a line break, unless it is empty.
func line(w io.Writer, text []byte) error {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	_, err := w.Write(text)
	return err
}

// columns print one line per object.
type columns []customColumn

type customColumn struct {
	header string
	path   *jsonpath.JSONPath
}

// parseColumns reads HEADER:PATH,HEADER:PATH.
func parseColumns(text string) (columns, error) {
	var all columns
	for part := range strings.SplitSeq(text, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok || header == "" || path == "" {
			return nil, fmt.Errorf("%q must be of the form HEADER:PATH, as in NAME:.key", part)
		}
		parsed, err := parsePath(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", header, err)
		}
		all = append(all, customColumn{header, parsed})
	}
	return all, nil
}

func (c columns) list(w io.Writer, items []any, headers bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	if headers {
		var names []string
		for _, column := range c {
			names = append(names, Cell(column.header))
		}
		fmt.Fprintln(t, strings.Join(names, "\t"))
	}
	for _, item := range items {
		var cells []string
		for _, column := range c {
			var out bytes.Buffer
			if err := column.path.Execute(&out, item); err != nil && !beyond(err) {
				return fmt.Errorf("custom-columns: %s: %w", column.header, err)
			}
			cells = append(cells, Cell(out.String()))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

func (c columns) object(w io.Writer, item any, headers bool) error {
	return c.list(w, []any{item}, headers)
}

// beyond reports whether a path asks for an element that a list does not have.
func beyond(err error) bool { return strings.Contains(err.Error(), "array index out of bounds") }

// decode reads a document for a template: whole numbers are integers.
func decode(data []byte) (any, error) {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}
	return v, nil
}

// byTemplate prints a document, of which an array is a list.
func (f *Format) byTemplate(w io.Writer, data []byte) error {
	if f.template == nil {
		return errors.New("print: the format has no template")
	}
	v, err := decode(data)
	if err != nil {
		return err
	}
	if items, ok := v.([]any); ok {
		return f.template.list(w, items, !f.NoHeaders)
	}
	return f.template.object(w, v, !f.NoHeaders)
}
