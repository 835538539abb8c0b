package testworld

import (
	"log/slog"
	"strings"
	"sync"
)

// Log keeps what is logged, of every level and without the time, a line for each record. It
// is safe for concurrent use, and its zero value is ready.
type Log struct {
	mu    sync.Mutex
	lines strings.Builder
}

// Logger returns a logger that writes into the log.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// Write implements [io.Writer].
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(line)
}

// Take returns what was logged since the last call.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.lines.Reset()
	return l.lines.String()
}
