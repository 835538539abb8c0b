package dashboard

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Style is how a piece of a line looks.
type Style int

// The styles. A screen without colours shows them all alike, and loses nothing: what is
// selected has a > in front and what is bad a !.
const (
	Plain  Style = iota
	Bright       // headers
	Mark         // the pane or row that is selected
	Dim          // help
	Alarm        // what should be looked at
)

// Span is a piece of a line.
type Span struct {
	Text  string
	Style Style
}

// Line is one line of a screen.
type Line []Span

func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return strings.TrimRight(b.String(), " ")
}

// Where a screen is this large, events stand below the other panes all the time.
const (
	tall      = 36
	below     = 9 // lines of events then, with their header
	leastWide = 40
	leastHigh = 8
)

// Draw returns the lines of a screen, as many as it is high.
func Draw(s State) []Line {
	if s.Width < leastWide || s.Height < leastHigh {
		return fill(s, []Line{{{cut(fmt.Sprintf("the screen is too small: %d x %d are needed", leastWide, leastHigh), max(1, s.Width)), Alarm}}})
	}
	lines := []Line{header(s), tabs(s)}
	switch {
	case s.Help:
		lines = append(lines, helpLines(s)...)
	case s.Dialog != nil && s.Dialog.Lines != nil:
		lines = append(lines, textLines(s)...)
	case s.Dialog != nil:
		lines = append(lines, questionLines(s)...)
	default:
		lines = append(lines, table(s, s.Pane, listHeight(s))...)
		if s.Height >= tall && s.Pane != Events {
			lines = pad(lines, s.Height-2-below)
			lines = append(lines, Line{{cut("── events "+strings.Repeat("─", s.Width), s.Width), Dim}})
			lines = append(lines, table(s, Events, below-1)...)
		}
	}
	lines = pad(lines, s.Height-2)
	return fill(s, append(lines[:s.Height-2], notice(s), keys(s)))
}

// pad adds empty lines.
func pad(lines []Line, n int) []Line {
	for len(lines) < n {
		lines = append(lines, Line{})
	}
	return lines
}

// fill makes a screen as high as it has to be.
func fill(s State, lines []Line) []Line {
	lines = pad(lines, s.Height)
	return lines[:max(0, s.Height)]
}

// listHeight is how many lines the list has, its header included.
func listHeight(s State) int {
	h := s.Height - 4
	if s.Height >= tall && s.Pane != Events {
		h -= below
	}
	return max(1, h)
}

// textHeight is how many lines of a text fit.
func textHeight(s State) int { return max(1, s.Height-5) }

func header(s State) Line {
	var size, running int32
	var machines int
	var hourly int64
	groups, down := 0, []string{}
	for _, shard := range s.Shards {
		if shard.Err != "" {
			down = append(down, shard.Name)
		}
		groups += len(shard.Groups)
		machines += len(shard.Instances)
		for _, g := range shard.Groups {
			running += g.GetActualSize()
			hourly += g.GetDemandUsage().GetHourlyMicroUsd()
			if g.GetMode() == modeDemand {
				size += g.GetActualSize()
			} else {
				size += g.GetSize()
			}
		}
	}
	text := "nstance  connecting"
	if s.Known {
		names := fmt.Sprintf("%d shards", len(s.Shards))
		if len(s.Shards) == 1 {
			names = fmt.Sprintf("shard %s  term %d  %s", s.Shards[0].Name, s.Shards[0].Term, s.Shards[0].Version)
		}
		text = fmt.Sprintf("nstance  running %d of %d  groups %d  instances %d", running, size, groups, machines)
		if hourly > 0 {
			text += fmt.Sprintf("  %.2f USD/h", float64(hourly)/1e6)
		}
		text += "  " + names
	}
	at := s.Now.UTC().Format(time.TimeOnly)
	room := s.Width - len(at) - 1
	line := Line{{fit(text, room) + " " + at, Bright}}
	if len(down) > 0 {
		line = Line{{fit("! no answer of "+strings.Join(down, ", ")+"  "+text, room) + " " + at, Alarm}}
	}
	return line
}

func tabs(s State) Line {
	var line Line
	for p := range panes {
		text, style := fmt.Sprintf(" %d %s ", p+1, p), Plain
		if p == s.Pane {
			text, style = fmt.Sprintf("[%d %s]", p+1, p), Mark
		}
		line = append(line, Span{text, style})
	}
	switch {
	case s.Filtering:
		line = append(line, Span{"  /" + tail(s.Filter, s.Width-50) + "_", Mark})
	case s.Filter != "":
		line = append(line, Span{"  /" + tail(s.Filter, s.Width-50), Bright})
	}
	return line
}

// table draws a list with its header in so many lines, around the cursor.
func table(s State, p Pane, height int) []Line {
	heads, all := headers(s, p), rows(s, p)
	marked := append([]string(nil), heads...)
	if s.Sort[p] < len(marked) {
		arrow := "↑"
		if s.Reverse[p] {
			arrow = "↓"
		}
		marked[s.Sort[p]] += arrow
	}
	widths := widthsOf(marked, all, s.Width-2)
	lines := []Line{{{"  " + joined(marked, widths), Bright}}}
	if len(all) == 0 {
		text := "  nothing"
		switch {
		case !s.Known:
			text = "  asking the servers"
		case s.Filter != "":
			text = "  nothing matches /" + s.Filter + "; esc clears it"
		}
		return append(lines, Line{{cut(text, s.Width), Dim}})
	}
	room := height - 1
	first := 0
	if p == s.Pane {
		first = max(0, min(s.Cursor[p]-room/2, len(all)-room))
	}
	for i := first; i < min(len(all), first+room); i++ {
		marks, style := []byte("  "), Plain
		if all[i].bad {
			marks[1], style = '!', Alarm
		}
		if p == s.Pane && i == s.Cursor[p] {
			marks[0], style = '>', Mark
		}
		lines = append(lines, Line{{string(marks) + joined(all[i].cells, widths), style}})
	}
	return lines
}

// widthsOf gives columns the room that they need; where there is not enough, the widest
// shrink first.
func widthsOf(heads []string, all []row, room int) []int {
	widths := make([]int, len(heads))
	for i, h := range heads {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, r := range all {
		for i, c := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > room; total-- {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= 3 {
			break
		}
		widths[widest]--
	}
	return widths
}

func joined(cells []string, widths []int) string {
	parts := make([]string, len(cells))
	for i, c := range cells {
		parts[i] = fit(shorten(clean(c), widths[i]), widths[i])
	}
	return strings.Join(parts, "  ")
}

// clean keeps text of a server in its place.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	return s
}

// fit makes a text exactly so wide.
func fit(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// shorten cuts what is one word, such as an id, in its middle: ids differ at their ends.
func shorten(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width || width < 8 || strings.Contains(s, " ") {
		return s
	}
	end := width / 2
	return string(runes[:width-1-end]) + "…" + string(runes[len(runes)-end:])
}

// cut shortens a text that is wider.
func cut(s string, width int) string {
	runes := []rune(s)
	switch {
	case len(runes) <= width:
		return s
	case width < 2:
		return string(runes[:max(0, width)])
	}
	return string(runes[:width-1]) + "…"
}

// tail keeps the end of a text, where its typist is.
func tail(s string, width int) string {
	runes := []rune(s)
	return string(runes[max(0, len(runes)-max(1, width)):])
}

func textLines(s State) []Line {
	d, page := s.Dialog, textHeight(s)
	title := d.Title
	if len(d.Lines) > page {
		title += fmt.Sprintf("  (%d to %d of %d lines)", d.Top+1, min(d.Top+page, len(d.Lines)), len(d.Lines))
	}
	lines := []Line{{{cut("── "+title+" "+strings.Repeat("─", s.Width), s.Width), Bright}}}
	for _, text := range d.Lines[d.Top:min(len(d.Lines), d.Top+page)] {
		if text == "" {
			lines = append(lines, Line{})
			continue
		}
		lines = append(lines, Line{{cut(clean(text), s.Width), Plain}})
	}
	return lines
}

func questionLines(s State) []Line {
	d := s.Dialog
	return []Line{
		{{cut("── "+d.Title+" "+strings.Repeat("─", s.Width), s.Width), Bright}},
		{},
		{{cut("  "+d.Question, s.Width), Plain}},
		{{"  > " + tail(d.Answer, s.Width-6) + "_", Mark}},
	}
}

func helpLines(s State) []Line {
	var lines []Line
	for _, text := range []string{
		"── keys ──────────────────────────────",
		"  1 2 3 4, tab      groups, instances, events, cost",
		"  up down j k       the row before or after; pgup pgdn home end",
		"  enter, d          describe the group or instance",
		"  e                 explain: what was decided, what is next, what blocks it",
		"  P                 plan: what the server would do next for the group",
		"  s                 scale the group",
		"  p                 pause the group, or resume it",
		"  /                 filter rows; esc clears it",
		"  o  O              sort by the next column; the other way round",
		"  r                 ask the servers now",
		"  q, ctrl+c         quit",
		"",
		"  > is the selected row, ! one that should be looked at. Any key goes back.",
	} {
		lines = append(lines, Line{{cut(text, s.Width), Plain}})
	}
	return lines
}

func notice(s State) Line {
	if s.Notice == "" {
		return Line{}
	}
	return Line{{cut(clean(s.Notice), s.Width), Alarm}}
}

func keys(s State) Line {
	text := "enter describe  e explain  P plan  p pause  s scale  / filter  o sort  ? keys  q quit"
	switch {
	case s.Help:
		text = "any key goes back"
	case s.Dialog != nil && s.Dialog.Lines != nil:
		text = "up down pgup pgdn scroll  esc back"
	case s.Dialog != nil:
		text = "enter do it  esc leave it"
	case s.Filtering:
		text = "enter keep the filter  esc clear it"
	case s.Width < len(text):
		text = "enter describe  e explain  P plan  p pause  s scale  / filter  ? keys  q quit"
	}
	return Line{{cut(text, s.Width), Dim}}
}
