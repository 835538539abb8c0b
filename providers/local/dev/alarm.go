package dev

import (
	"context"
	"fmt"
	"log/slog"
)

// alarms is a log handler that also tells the person at the screen what went
// wrong: everything else stands in the log alone.
type alarms struct {
	slog.Handler
	tell func(string)
}

// Handle passes the record on, and tells of an error.
func (a alarms) Handle(ctx context.Context, rec slog.Record) error {
	if rec.Level >= slog.LevelError {
		text := rec.Message
		rec.Attrs(func(attr slog.Attr) bool {
			text += fmt.Sprintf(" %s=%v", attr.Key, attr.Value)
			return true
		})
		a.tell(text)
	}
	return a.Handler.Handle(ctx, rec)
}

// WithAttrs keeps telling.
func (a alarms) WithAttrs(attrs []slog.Attr) slog.Handler {
	return alarms{a.Handler.WithAttrs(attrs), a.tell}
}

// WithGroup keeps telling.
func (a alarms) WithGroup(name string) slog.Handler {
	return alarms{a.Handler.WithGroup(name), a.tell}
}
