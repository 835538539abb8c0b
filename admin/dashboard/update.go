package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Update returns the state after a message, and what is to be asked of the servers.
func Update(s State, m Message) (State, Request) {
	switch m := m.(type) {
	case Size:
		s.Width, s.Height = m.Width, m.Height
	case Tick:
		s.Now = time.Time(m)
	case Data:
		s = stay(s, func(s State) State {
			s.Shards, s.Known = merge(s.Shards, m.Shards), true
			return s
		})
	case Event:
		s.Happened = append(s.Happened[max(0, len(s.Happened)-mostEvents+1):len(s.Happened):len(s.Happened)], m)
	case Answer:
		s.Notice = m.Notice
		if m.Text != "" {
			s.Dialog = &Dialog{Title: m.Title, Lines: strings.Split(strings.TrimRight(m.Text, "\n"), "\n")}
		}
	case Key:
		var r Request
		s, r = press(s, string(m))
		return clamp(s), r
	}
	return clamp(s), Request{}
}

// stay keeps the cursor on its group or instance where a change moves the rows: the key that
// comes next is meant for that.
func stay(s State, change func(State) State) State {
	was, ok := selected(s)
	s = change(s)
	if !ok || was.group == "" {
		return s
	}
	same := func(r row) bool { return r.shard == was.shard && r.group == was.group && r.instance == was.instance }
	if at := slices.IndexFunc(rows(s, s.Pane), same); at >= 0 {
		s.Cursor[s.Pane] = at
	}
	return s
}

// merge keeps what a shard said before where it did not answer now.
func merge(before, now []Shard) []Shard {
	old := map[string]Shard{}
	for _, s := range before {
		old[s.Name] = s
	}
	merged := make([]Shard, len(now))
	for i, s := range now {
		if s.Err != "" {
			kept := old[s.Name]
			kept.Name, kept.Err = s.Name, s.Err
			s = kept
		}
		merged[i] = s
	}
	return merged
}

// clamp keeps the cursors on rows that exist.
func clamp(s State) State {
	for p := range panes {
		s.Cursor[p] = max(0, min(s.Cursor[p], len(rows(s, p))-1))
	}
	if d := s.Dialog; d != nil && d.Lines != nil {
		moved := *d
		moved.Top = max(0, min(moved.Top, len(moved.Lines)-textHeight(s)))
		s.Dialog = &moved
	}
	return s
}

func press(s State, key string) (State, Request) {
	if key == "ctrl+c" {
		return s, Request{Verb: Quit}
	}
	switch {
	case s.Help:
		s.Help = false
		return s, Request{}
	case s.Dialog != nil && s.Dialog.Lines != nil:
		return pressInText(s, key), Request{}
	case s.Dialog != nil:
		return pressInQuestion(s, key)
	case s.Filtering:
		return pressInFilter(s, key), Request{}
	}
	return pressInList(s, key)
}

func pressInText(s State, key string) State {
	d := *s.Dialog
	page := textHeight(s)
	switch key {
	case "esc", "q", "enter":
		s.Dialog = nil
		return s
	case "down", "j":
		d.Top++
	case "up", "k":
		d.Top--
	case "pgdown", "space", " ":
		d.Top += page
	case "pgup":
		d.Top -= page
	case "home", "g":
		d.Top = 0
	case "end", "G":
		d.Top = len(d.Lines)
	}
	s.Dialog = &d
	return s
}

// typed returns a text after a key that belongs to it.
func typed(text, key string) string {
	switch {
	case key == "backspace" && text != "":
		runes := []rune(text)
		return string(runes[:len(runes)-1])
	case key == "space":
		return text + " "
	case len([]rune(key)) == 1:
		return text + key
	}
	return text
}

func pressInFilter(s State, key string) State {
	switch key {
	case "enter":
		s.Filtering = false
	case "esc":
		s.Filtering, s.Filter = false, ""
	default:
		s.Filter = typed(s.Filter, key)
	}
	return s
}

func pressInQuestion(s State, key string) (State, Request) {
	d := *s.Dialog
	switch key {
	case "esc":
		s.Dialog, s.Notice = nil, "nothing was changed"
		return s, Request{}
	case "enter":
		return answered(s, d)
	default:
		d.Answer = typed(d.Answer, key)
		s.Dialog = &d
		return s, Request{}
	}
}

// answered makes of an answer the request that it completes.
func answered(s State, d Dialog) (State, Request) {
	r := d.Ask
	answer := strings.TrimSpace(d.Answer)
	switch r.Verb {
	case Scale:
		size, err := strconv.ParseInt(answer, 10, 32)
		if err != nil || size < 0 {
			s.Notice = fmt.Sprintf("size %q must be a whole number from 0 on", answer)
			return s, Request{}
		}
		r.Size = int32(size)
	case Pause:
		if answer == "" {
			s.Notice = "a reason is needed, for those who find the group paused"
			return s, Request{}
		}
		r.Reason = answer
	default:
	}
	s.Dialog, s.Notice = nil, ""
	return s, r
}

func pressInList(s State, key string) (State, Request) {
	s.Notice = ""
	page := max(1, listHeight(s)-1)
	switch key {
	case "q":
		return s, Request{Verb: Quit}
	case "?", "h":
		s.Help = true
	case "tab", "right", "l":
		s.Pane = (s.Pane + 1) % panes
	case "shift+tab", "left":
		s.Pane = (s.Pane + panes - 1) % panes
	case "1", "2", "3", "4":
		s.Pane = Pane(key[0] - '1')
	case "down", "j":
		s.Cursor[s.Pane]++
	case "up", "k":
		s.Cursor[s.Pane]--
	case "pgdown", "space", " ":
		s.Cursor[s.Pane] += page
	case "pgup":
		s.Cursor[s.Pane] -= page
	case "home", "g":
		s.Cursor[s.Pane] = 0
	case "end", "G":
		s.Cursor[s.Pane] = len(rows(s, s.Pane))
	case "/":
		s.Filtering = true
	case "esc":
		s.Filter = ""
	case "o":
		s.Sort[s.Pane] = (s.Sort[s.Pane] + 1) % len(headers(s, s.Pane))
	case "O":
		s.Reverse[s.Pane] = !s.Reverse[s.Pane]
	case "r":
		return s, Request{Verb: Refresh}
	default:
		return act(s, key)
	}
	return s, Request{}
}

// act asks for something about the row under the cursor.
func act(s State, key string) (State, Request) {
	row, ok := selected(s)
	if !ok || row.group == "" {
		return s, Request{}
	}
	r := Request{Shard: row.shard, Group: row.group, Instance: row.instance}
	switch key {
	case "d", "enter":
		r.Verb = Describe
	case "e":
		r.Verb = Explain
	case "P":
		r.Verb, r.Instance = Plan, ""
	case "p":
		r.Instance = ""
		if row.paused {
			r.Verb = Resume
			return s, r
		}
		r.Verb = Pause
		s.Dialog = &Dialog{Title: "pause group " + row.group, Question: "reason", Ask: r}
		return s, Request{}
	case "s":
		r.Verb, r.Instance = Scale, ""
		if row.demand {
			s.Notice = "group " + row.group + " is of mode demand: its size follows from what is needed"
			return s, Request{}
		}
		s.Dialog = &Dialog{
			Title: "scale group " + row.group, Question: fmt.Sprintf("size (now %d; fewer deletes machines)", row.size), Ask: r,
		}
		return s, Request{}
	default:
		return s, Request{}
	}
	return s, r
}
