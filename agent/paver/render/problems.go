package render

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with an assignment.
type Problem struct {
	// Field in the words of the template, such as `machine.binds[0].source`.
	Field string
	// Message says what is wrong, and what would be right.
	Message string
}

// Invalid says why nothing can be written for an assignment.
type Invalid struct {
	// Problems are all of them, at least one.
	Problems []Problem
}

// Error names each field.
func (e *Invalid) Error() string {
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, p.Field+": "+p.Message)
	}
	return strings.Join(lines, "; ")
}

// problems are what is wrong so far.
type problems struct{ list []Problem }

// problem notes that something is wrong with a field.
func (p *problems) problem(field, format string, args ...any) {
	p.list = append(p.list, Problem{field, fmt.Sprintf(format, args...)})
}
