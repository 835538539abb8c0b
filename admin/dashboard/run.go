package dashboard

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// Source knows the servers. Its methods are called at the same time.
type Source interface {
	// Look asks every shard. One that does not answer says so in its Err.
	Look(ctx context.Context) []Shard
	// Watch calls happened for each event, until ctx ends.
	Watch(ctx context.Context, happened func(Event))
	// Do carries a request out, and says how it went.
	Do(ctx context.Context, r Request) Answer
}

// Options are where and how a dashboard runs.
type Options struct {
	In       io.Reader
	Out      io.Writer
	Interval time.Duration // between two looks
	Now      func() time.Time
	// Environment is that of the terminal, as NAME=VALUE.
	Environment []string
}

// Run shows the dashboard until the user quits or ctx ends.
func Run(ctx context.Context, source Source, opts Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &program{ctx: ctx, source: source, opts: opts, state: State{Now: opts.Now()}}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(opts.In), tea.WithOutput(opts.Out), tea.WithoutSignalHandler()}
	if opts.Environment != nil {
		options = append(options, tea.WithEnvironment(opts.Environment))
	}
	screen := tea.NewProgram(p, options...)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		source.Watch(ctx, func(e Event) { screen.Send(e) })
	}()
	_, err := screen.Run()
	ended := ctx.Err() != nil
	cancel()
	<-watched
	if ended {
		return nil // an interruption is how it ends
	}
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// program is a dashboard as the library for terminals runs it.
type program struct {
	ctx    context.Context //nolint:containedctx // commands of the library take none
	source Source
	opts   Options
	state  State
	asked  atomic.Int64 // looks that have begun
	shown  int64        // number of the look that the state is of
}

// Init implements tea.Model.
func (p *program) Init() tea.Cmd { return tea.Batch(p.look, p.tick()) }

// looked is the answer to a look. Looks may overlap, and their answers come in any order.
type looked struct {
	number int64 // in the order in which they began
	last   bool  // no other follows
	shards []Shard
}

func (p *program) look() tea.Msg { return p.lookAt(false) }

func (p *program) lookAt(last bool) looked {
	number := p.asked.Add(1)
	return looked{number, last, p.source.Look(p.ctx)}
}

// again is a look when the time has come.
type again struct{}

func (p *program) later() tea.Cmd {
	return p.after(p.opts.Interval, func() tea.Msg { return again{} })
}

func (p *program) tick() tea.Cmd {
	return p.after(time.Second, func() tea.Msg { return Tick(p.opts.Now()) })
}

// after is a message that comes later, unless the dashboard has ended before.
func (p *program) after(d time.Duration, msg func() tea.Msg) tea.Cmd {
	return func() tea.Msg {
		select {
		case <-p.ctx.Done():
			return nil
		case <-time.After(d):
			return msg()
		}
	}
}

// Update implements tea.Model.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return p.take(Size{msg.Width, msg.Height}, nil)
	case tea.KeyPressMsg:
		return p.take(Key(msg.String()), nil)
	case tea.PasteMsg:
		return p, nil // nothing is done by accident
	case again:
		return p, p.look
	case looked:
		var next tea.Cmd
		if !msg.last {
			next = p.later()
		}
		if msg.number < p.shown {
			return p, next // it began before what is shown did
		}
		p.shown = msg.number
		return p.take(Data{msg.shards}, next)
	case Tick:
		return p.take(msg, p.tick())
	case Event:
		return p.take(msg, nil)
	case Answer:
		return p.take(msg, p.lookOnce())
	}
	return p, nil
}

// lookOnce is a look that no other follows.
func (p *program) lookOnce() tea.Cmd {
	return func() tea.Msg { return p.lookAt(true) }
}

// take changes the state, and has done what it asks for.
func (p *program) take(m Message, next tea.Cmd) (tea.Model, tea.Cmd) {
	var r Request
	p.state, r = Update(p.state, m)
	switch r.Verb {
	case Nothing:
		return p, next
	case Quit:
		return p, tea.Quit
	case Refresh:
		return p, tea.Batch(next, p.lookOnce())
	}
	return p, tea.Batch(next, func() tea.Msg { return p.source.Do(p.ctx, r) })
}

// View implements tea.Model.
func (p *program) View() tea.View {
	styles := map[Style]lipgloss.Style{
		Bright: lipgloss.NewStyle().Bold(true),
		Mark:   lipgloss.NewStyle().Reverse(true),
		Dim:    lipgloss.NewStyle().Faint(true),
		Alarm:  lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true),
	}
	var b strings.Builder
	for i, line := range Draw(p.state) {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, span := range line {
			if style, ok := styles[span.Style]; ok {
				b.WriteString(style.Render(span.Text))
			} else {
				b.WriteString(span.Text)
			}
		}
	}
	view := tea.NewView(b.String())
	view.AltScreen = true
	return view
}
