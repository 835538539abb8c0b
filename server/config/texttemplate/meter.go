package texttemplate

import (
	"text/template"
	"text/template/parse"
)

// The names of the functions that count rounds and calls. A user could call
// them too, and would only shorten his own budget.
const (
	loopMeterName = "_loop"
	callMeterName = "_call"
)

var (
	loopMeter = meterNode(loopMeterName)
	callMeter = meterNode(callMeterName)
)

// meterNode is the parsed action that calls a function.
func meterNode(function string) parse.Node {
	nothing := func() string { return "" }
	t := template.Must(template.New("").Funcs(template.FuncMap{function: nothing}).Parse("{{" + function + "}}"))
	return t.Root.Nodes[0]
}

// meter makes each execution of the list begin with the node. Nothing in
// text/template itself bounds {{range 1000000000000}}, or templates that call
// each other.
func meter(list *parse.ListNode, node parse.Node) {
	list.Nodes = append([]parse.Node{node}, list.Nodes...)
}
