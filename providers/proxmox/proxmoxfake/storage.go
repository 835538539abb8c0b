package proxmoxfake

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	isoName    = regexp.MustCompile(`(?i)\.(iso|img)$`)
	datastores = []string{"Datastore.Audit", "Datastore.AllocateSpace"}
)

var storageRoutes = []route{
	{op: "GET /storage", schema: schema{"type": {}}, do: (*Cloud).clusterStorages},
	{op: "GET /nodes/{node}/storage", do: (*Cloud).nodeStorages, schema: schema{
		"content": {}, "enabled": {kind: "boolean"}, "format": {kind: "boolean"}, "storage": {}, "target": {},
	}},
	{op: "GET /nodes/{node}/storage/{storage}/status", grants: datastores, do: (*Cloud).storageStatus},
	{op: "GET /nodes/{node}/storage/{storage}/content", grants: datastores, do: (*Cloud).listContent, schema: schema{
		"content": {}, "vmid": vmidParam,
	}},
	{op: "GET /nodes/{node}/storage/{storage}/content/{volume}", grants: datastores, do: (*Cloud).getContent},
	{op: "POST /nodes/{node}/storage/{storage}/upload", grants: []string{"Datastore.AllocateTemplate"}, forks: "imgcopy", do: (*Cloud).receive, schema: schema{
		"content": {required: true, enum: []string{"iso", "vztmpl", "import"}}, "filename": {length: 255},
		"checksum": {}, "checksum-algorithm": {}, "tmpfilename": {},
	}},
	{op: "DELETE /nodes/{node}/storage/{storage}/content/{volume}", grants: []string{"Datastore.Allocate"}, do: (*Cloud).deleteContent, schema: schema{
		"delay": {kind: "integer", min: 1, max: 30},
	}},
}

func (s Storage) holds(content string) bool { return slices.Contains(s.Content, content) }

func (c *Cloud) clusterStorages(r *request) (any, error) {
	list := []map[string]any{}
	for _, s := range c.opts.Storages {
		if r.may("Datastore.Audit") {
			list = append(list, map[string]any{"storage": s.Name, "type": s.Type, "content": strings.Join(s.Content, ","), "shared": bit(s.Shared), "digest": "0"})
		}
	}
	return list, nil
}

func (c *Cloud) storageEntry(s Storage, node string) map[string]any {
	total, free := max(s.Size, c.room(s, node)), max(0, c.room(s, node))
	if s.Size == 0 {
		total = max(1024*GiB, free)
	}
	return map[string]any{
		"type": s.Type, "content": strings.Join(s.Content, ","), "shared": bit(s.Shared), "active": 1, "enabled": 1,
		"total": total, "used": total - free, "avail": free, "used_fraction": float64(total-free) / float64(total),
	}
}

func (c *Cloud) storageResource(s Storage, node string) map[string]any {
	e := c.storageEntry(s, node)
	return map[string]any{
		"id": "storage/" + node + "/" + s.Name, "type": "storage", "storage": s.Name, "node": node, "plugintype": s.Type,
		"status":  map[bool]string{true: "available", false: "unknown"}[c.nodes[node].online],
		"content": e["content"], "shared": e["shared"], "maxdisk": e["total"], "disk": e["used"],
	}
}

func (c *Cloud) nodeStorages(r *request) (any, error) {
	list := []map[string]any{}
	for _, s := range c.opts.Storages {
		_, err := c.store(s.Name, r.node)
		if err != nil || !r.may("Datastore.Audit") && !r.may("Datastore.AllocateSpace") {
			continue
		}
		if want := r.params["content"]; want == "" || s.holds(want) {
			entry := c.storageEntry(s, r.node)
			entry["storage"] = s.Name
			list = append(list, entry)
		}
	}
	return list, nil
}

func (c *Cloud) storageStatus(r *request) (any, error) {
	s, err := c.store(r.rest["storage"], r.node)
	if err != nil {
		return nil, err
	}
	return c.storageEntry(s, r.node), nil
}

func (c *Cloud) listContent(r *request) (any, error) {
	s, err := c.store(r.rest["storage"], r.node)
	if err != nil {
		return nil, err
	}
	list := []map[string]any{}
	for _, v := range c.contentOf(place(s, r.node)) {
		if want := r.params["content"]; want == "" || want == v.content() {
			list = append(list, v.entry())
		}
	}
	return list, nil
}

// contentOf returns the volumes of a place in order of name.
func (c *Cloud) contentOf(place string) []*volume {
	var list []*volume
	for _, v := range c.volumes {
		if v.place == place {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *volume) int { return cmp.Compare(a.id, b.id) })
	return list
}

func (v *volume) content() string {
	_, name, _ := strings.Cut(v.id, ":")
	if kind, _, ok := strings.Cut(name, "/"); ok && v.owner == 0 {
		return kind
	}
	return "images"
}

func (v *volume) entry() map[string]any {
	entry := map[string]any{"volid": v.id, "content": v.content(), "format": v.format, "size": v.size, "ctime": v.made.Unix()}
	if v.owner > 0 {
		entry["vmid"] = v.owner
	}
	return entry
}

func (c *Cloud) getContent(r *request) (any, error) {
	v := c.find(r.volumeID(), r.node)
	if v == nil {
		return nil, die("volume_size_info on '%s' failed - no such volume", r.volumeID())
	}
	entry := map[string]any{"path": "/var/lib/vz/template/" + strings.SplitN(v.id, ":", 2)[1], "format": v.format, "size": v.size, "used": v.size}
	return entry, nil
}

// volumeID is the volume of the path, which may leave the storage out.
func (r *request) volumeID() string {
	if strings.Contains(r.rest["volume"], ":") {
		return r.rest["volume"]
	}
	return r.rest["storage"] + ":" + r.rest["volume"]
}

// upload is a file on its way into a storage.
type upload struct {
	name string
	data []byte
}

// maxUpload is the largest file that the fake takes.
const maxUpload = 64 * MiB

// readUpload reads a form with a file. The file's name stands with the file; a field
// of that name beside it is one value too many.
func readUpload(r *http.Request) (*upload, map[string]string, error) {
	reader, err := r.MultipartReader()
	if err != nil {
		return nil, nil, &failure{status: http.StatusBadRequest, reason: "malformed form"}
	}
	params, up := map[string]string{}, &upload{}
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return up, params, nil
		}
		if err != nil {
			return nil, nil, &failure{status: http.StatusBadRequest, reason: "upload failed"}
		}
		data, err := io.ReadAll(io.LimitReader(part, maxUpload))
		if err != nil {
			return nil, nil, &failure{status: http.StatusBadRequest, reason: "upload failed"}
		}
		_, disposition, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		name := part.FormName()
		if file := disposition["filename"]; file != "" {
			up.name, up.data = file, data
			name, data = "filename", []byte(file)
		}
		if _, twice := params[name]; twice {
			return nil, nil, badParam(name, "duplicate parameter")
		}
		params[name] = string(data)
	}
}

// receive stores an uploaded file. It replaces one of that name.
func (c *Cloud) receive(r *request) (any, error) {
	s, err := c.store(r.rest["storage"], r.node)
	if err != nil {
		return nil, err
	}
	content := r.params["content"]
	switch {
	case r.upload == nil || r.upload.name == "":
		return nil, badParam("filename", "property is missing and it is not optional")
	case !s.holds(content):
		return nil, badParam("storage", "storage '%s' does not support '%s' content", s.Name, content)
	case content == "iso" && !isoName.MatchString(r.upload.name):
		return nil, badParam("filename", "wrong file extension")
	case strings.ContainsAny(r.upload.name, "/\\ "):
		return nil, badParam("filename", "invalid filename or wrong extension")
	}
	v := volume{
		place: place(s, r.node), id: s.Name + ":" + content + "/" + r.upload.name,
		format: content, size: int64(len(r.upload.data)), data: r.upload.data,
	}
	return c.fork(r, "imgcopy", "", r.upload.name, func(t *task, now time.Time) {
		c.later(t, now, c.opts.takes("imgcopy"), func(now time.Time) {
			if c.room(s, r.node) < v.size {
				t.fail(now, die("import failed: command '/usr/bin/cp' failed: No space left on device"))
				return
			}
			v.made = now
			c.allocate(v)
			t.end(now, "OK")
		})
	}), nil
}

// deleteContent removes a volume. One that is not there is removed already.
func (c *Cloud) deleteContent(r *request) (any, error) {
	s, err := c.store(r.rest["storage"], r.node)
	if err != nil {
		return nil, err
	}
	id := r.volumeID()
	if !strings.HasPrefix(id, s.Name+":") {
		return nil, badParam("volume", "storage ID mismatch (%s != %s)", strings.SplitN(id, ":", 2)[0], s.Name)
	}
	return c.fork(r, "imgdel", s.Name, id, func(t *task, now time.Time) {
		c.later(t, now, c.opts.takes("imgdel"), func(now time.Time) {
			if v := c.find(id, r.node); v != nil {
				c.release(v)
			}
			t.end(now, "OK")
		})
	}), nil
}
