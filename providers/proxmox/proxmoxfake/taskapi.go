package proxmoxfake

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

var taskRoutes = []route{
	{op: "GET /cluster/tasks", do: (*Cloud).clusterTasks},
	{op: "GET /nodes/{node}/tasks", do: (*Cloud).nodeTasks, schema: schema{
		"start": {kind: "integer"}, "limit": {kind: "integer"}, "vmid": vmidParam, "typefilter": {}, "userfilter": {},
		"errors": {kind: "boolean"}, "since": {kind: "integer"}, "until": {kind: "integer"}, "statusfilter": {},
		"source": {enum: []string{"archive", "active", "all"}},
	}},
	{op: "GET /nodes/{node}/tasks/{upid}/status", do: (*Cloud).taskStatus},
	{op: "GET /nodes/{node}/tasks/{upid}/log", do: (*Cloud).taskLog, schema: schema{"start": {kind: "integer"}, "limit": {kind: "integer"}}},
	{op: "DELETE /nodes/{node}/tasks/{upid}", do: (*Cloud).stopTask},
}

// task returns the task that a call is about. Those of others take a privilege.
func (c *Cloud) task(r *request) (*task, error) {
	upid := r.rest["upid"]
	if strings.Count(upid, ":") != 8 {
		return nil, badParam("upid", "unable to parse worker upid")
	}
	t := c.tasks[upid]
	if t == nil || t.node != r.node {
		return nil, badParam("upid", "no such task")
	}
	if t.user != r.user {
		return t, r.need("/nodes/"+r.node, "Sys.Audit")
	}
	return t, nil
}

func (t *task) entry() map[string]any {
	user, token, _ := strings.Cut(t.user, "!")
	entry := map[string]any{
		"upid": t.upid, "node": t.node, "pid": t.pid, "pstart": 0x1000 + t.pid, "starttime": t.started.Unix(),
		"type": t.kind, "id": t.id, "user": user, "tokenid": token,
	}
	return entry
}

func (c *Cloud) taskStatus(r *request) (any, error) {
	t, err := c.task(r)
	if err != nil {
		return nil, err
	}
	entry := t.entry()
	entry["status"] = "running"
	if t.exit != "" {
		entry["status"], entry["exitstatus"] = "stopped", t.exit
	}
	return entry, nil
}

func (c *Cloud) taskLog(r *request) (any, error) {
	t, err := c.task(r)
	if err != nil {
		return nil, err
	}
	start, _ := strconv.Atoi(r.params["start"])
	limit := 50
	if n, err := strconv.Atoi(r.params["limit"]); err == nil && n > 0 {
		limit = n
	}
	lines := []map[string]any{}
	for i, text := range t.log {
		if i >= start && len(lines) < limit {
			lines = append(lines, map[string]any{"n": i + 1, "t": text})
		}
	}
	return lines, nil
}

// stopTask interrupts a worker, which cleans up behind itself if it can.
func (c *Cloud) stopTask(r *request) (any, error) {
	t, err := c.task(r)
	if err != nil {
		return nil, err
	}
	if t.exit == "" && t.undo != nil {
		t.undo()
	}
	t.end(r.now, "interrupted by signal")
	return nil, nil
}

// listed is a task in a list, where the exit status is called status.
func (t *task) listed() map[string]any {
	entry := t.entry()
	if t.exit != "" {
		entry["status"], entry["endtime"] = t.exit, t.ended.Unix()
	}
	return entry
}

func (c *Cloud) clusterTasks(r *request) (any, error) {
	return c.listTasks(r, func(*task) bool { return true }), nil
}

func (c *Cloud) nodeTasks(r *request) (any, error) {
	limit := 50
	if n, err := strconv.Atoi(r.params["limit"]); err == nil {
		limit = n
	}
	list := c.listTasks(r, func(t *task) bool {
		return t.node == r.node &&
			(r.params["vmid"] == "" || r.params["vmid"] == t.id) &&
			(r.params["typefilter"] == "" || r.params["typefilter"] == t.kind) &&
			(r.params["source"] != "active" || t.exit == "") &&
			(r.params["source"] == "active" || r.params["source"] == "all" || t.exit != "")
	})
	return list[:min(limit, len(list))], nil
}

// listTasks lists the tasks that match and that the caller may see, the latest first.
func (c *Cloud) listTasks(r *request, match func(*task) bool) []map[string]any {
	var tasks []*task
	for _, t := range c.tasks {
		if match(t) && (t.user == r.user || r.may("Sys.Audit")) {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(b.pid, a.pid) })
	list := []map[string]any{}
	for _, t := range tasks {
		list = append(list, t.listed())
	}
	return list
}
