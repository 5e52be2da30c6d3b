package serve

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/metrics"
	"ckpt/cmd/ckpt/internal/study"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/lazy"
)

// schemas has the schemas that the service uses, out of docs/schema; TestSchemas makes the file.
//
//go:embed assets/schemas.json
var schemas []byte

// object is an object of JSON.
type object map[string]any

// An ownRequest is one that no command answers.
type ownRequest struct {
	method, path string
	right        right
	handle       http.HandlerFunc
	summary      string
	result       any               // a value of the type of the answer, or the name of a schema
	query        map[string]string // parameters in the query, with what they mean
}

// exact refuses parameters that the request does not have, before it is answered.
func (own *ownRequest) exact(w http.ResponseWriter, r *http.Request) {
	list, err := parameters(r)
	for name, values := range list {
		if own.query[name] == "" {
			err = unknownParameter(name, slices.Sorted(maps.Keys(own.query)))
		} else if len(values) != 1 {
			err = ui.BadUsage(fmt.Sprintf("parameter %s has %d values", name, len(values)), "give one")
		}
	}
	if err != nil {
		problemOf(err, nil).write(w)
		return
	}
	own.handle(w, r)
}

// own are the requests that no command answers.
func (s *server) own() []ownRequest {
	tilesOfFile := maps.Clone(tileParameters)
	tilesOfFile["trace"] = "The path of a trace in the directory of --traces."
	return []ownRequest{
		{"GET", "/api/stores", reading, s.listStores, "List the stores of the service.", []storeState{}, nil},
		{"GET", "/api/session", reading, s.session, "Say what the sender may do.", session{}, nil},
		{"GET", "/api/tasks", reading, s.listTasks, "List the tasks that run, and those that ended last.", []Task{}, nil},
		{"GET", "/api/tasks/{task}", reading, s.showTask, "Show a task.", Task{}, nil},
		{"DELETE", "/api/tasks/{task}", reading, s.cancelTask, "Cancel a task; of a launched job: stop it after a last checkpoint.", Task{}, nil},
		{"GET", "/api/events", reading, s.events, "Stream jobs and tasks as server-sent events: first all, then each that changes. The data of an event is a change.", Change{}, nil},
		{"GET", oneJob + "/history", reading, s.history, "List the newest events of a job's journal.", "history", nil},
		{"GET", "/api/traces", reading, s.listTraces, "List the traces in the directory of --traces.", []traceFile{}, nil},
		{"GET", "/api/traces/tiles", reading, s.tilesOfFile, "Show a part of a trace: the bytes of each rank or file in tiles of time.", tiled{}, tilesOfFile},
		{"GET", "/api/studies", reading, s.listStudies, "List the studies in the directory of --studies.", []studyFile{}, nil},
		{"GET", "/api/studies/page", reading, s.showStudy, "Show what a study says: texts, tables and charts. The head of a column of numbers begins with |.", study.Page{}, studyParameters},
		{"GET", oneJob + "/checkpoints/{n}/trace/tiles", reading, s.tilesOfCheckpoint, "Show a part of the trace of a checkpoint.", tiled{}, tileParameters},
		{"GET", "/api/openapi.json", reading, s.showDocument, "Show this document.", object{}, nil},
		{"GET", "/metrics", reading, s.meter.handle, "Show the metrics of all jobs, as Prometheus reads them.", "", nil},
	}
}

func (s *server) showDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(s.schema)
}

// document describes all requests as OpenAPI 3.1, and finds the commands of the operations.
func (s *server) document() ([]byte, error) {
	parts := object{}
	if err := json.Unmarshal(schemas, &parts); err != nil {
		return nil, err
	}
	parts["history"] = object{"type": "array", "items": object{"$ref": "#/components/schemas/launch"}}
	parts["problem"] = schemaOf(reflect.TypeFor[problem]())
	paths := map[string]object{}
	root := s.tree.New(&ui.Globals{})
	for i := range operations {
		o := &operations[i]
		cmd, err := o.commandOf(root)
		if err != nil {
			return nil, err
		}
		s.commands[o.id()] = cmd
		described := o.describe(cmd)
		put(paths, o.method, o.path, described)
	}
	for _, own := range s.own() {
		o := operation{method: own.method, path: own.path}
		described := object{"operationId": o.id(), "summary": own.summary, "parameters": pathParameters(own.path), "security": secured(own.right)}
		for _, name := range slices.Sorted(maps.Keys(own.query)) {
			described["parameters"] = append(described["parameters"].([]object), object{"name": name, "in": "query", "required": false, "schema": object{"type": "string"}, "description": own.query[name]})
		}
		kind, schema := "application/json", object{}
		if name, named := own.result.(string); named && name != "" {
			schema = object{"$ref": "#/components/schemas/" + name}
		} else if !named {
			schema = schemaOf(reflect.TypeOf(own.result))
		}
		switch own.path {
		case "/api/events":
			kind, schema = "text/event-stream", object{"type": "string", "contentSchema": schema}
		case "/metrics":
			kind, schema = metrics.ContentType, object{"type": "string"}
		}
		described["responses"] = responses("200", kind, schema)
		put(paths, own.method, own.path, described)
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{"title": "ckpt serve", "version": ui.ThisBuild().Version,
			"description": "The commands of ckpt over HTTP. Parameters are the flags of the commands, in their forms; results are what the commands print with --json."},
		"paths": paths,
		"components": object{"schemas": parts, "securitySchemes": object{
			"token":   object{"type": "http", "scheme": "bearer", "description": "A token of --tokens."},
			"session": object{"type": "apiKey", "in": "cookie", "name": "ckpt-PORT", "description": "The cookie that the link of ckpt serve gives to a browser."}}},
	})
}

func put(paths map[string]object, method, path string, described object) {
	if paths[path] == nil {
		paths[path] = object{}
	}
	paths[path][strings.ToLower(method)] = described
}

func secured(r right) []object {
	return []object{{"token": []string{r.String()}}, {"session": []string{r.String()}}}
}

func responses(status, kind string, schema object) object {
	return object{
		status:    object{"description": http.StatusText(map[string]int{"200": 200, "202": 202}[status]), "content": object{kind: object{"schema": schema}}},
		"default": object{"description": "An error, with the hint of ckpt.", "content": object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/problem"}}}},
	}
}

var inBraces = lazy.Regexp(`\{([a-z]+)\}`)

func pathParameters(path string) []object {
	list := []object{}
	for _, m := range inBraces().FindAllStringSubmatch(path, -1) {
		schema := object{"type": "string"}
		says := map[string]string{"store": "The name of a store.", "task": "The name of a task."}[m[1]]
		if p, ok := patterns[m[1]]; ok {
			schema["pattern"], says = p.pattern, p.says
		}
		list = append(list, object{"name": m[1], "in": "path", "required": true, "schema": schema, "description": says})
	}
	return list
}

// describe describes an operation with the flags of its command.
func (o *operation) describe(cmd *cobra.Command) object {
	parameters, properties, required := pathParameters(o.path), object{}, []string{}
	for _, name := range o.parameters() {
		var schema object
		if p, word := patterns[name]; word {
			schema = object{"type": "string", "pattern": p.pattern, "description": p.says}
			required = append(required, name)
		} else {
			schema = schemaOfFlag(cmd.Flags().Lookup(name))
		}
		properties[name] = schema
		parameters = append(parameters, object{"name": name, "in": "query", "required": patterns[name].says != "", "schema": schema, "description": schema["description"]})
	}
	described := object{"operationId": o.id(), "summary": o.summary, "description": "As " + cmd.CommandPath() + ".", "security": secured(o.right)}
	if o.method == http.MethodPost {
		body := object{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			body["required"] = required
		}
		described["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": body}}}
		parameters = pathParameters(o.path)
	}
	described["parameters"] = parameters
	if o.how == answer {
		described["responses"] = responses("200", "application/json", object{"$ref": "#/components/schemas/" + o.schema()})
	} else {
		described["responses"] = responses("202", "application/json", schemaOf(reflect.TypeFor[Task]()))
	}
	return described
}

// schemaOfFlag describes a value as the flag reads it.
func schemaOfFlag(f *pflag.Flag) object {
	schema := object{"type": "string", "description": f.Usage}
	switch f.Value.Type() {
	case "int", "uint64":
		schema["type"] = "integer"
	case "float64":
		schema["type"] = "number"
	case "bool":
		schema["type"] = "boolean"
	case "stringArray":
		schema = object{"type": "array", "items": object{"type": "string"}, "description": f.Usage}
	}
	if f.Name == "on" {
		schema["enum"] = ui.ChoicesOf(f)
	}
	return schema
}

// schemaOf describes a type of this package. Types of results have schemas of their own.
func schemaOf(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.PkgPath() == "ckpt/coordinator/job":
		return object{"$ref": "#/components/schemas/" + strings.ToLower(t.Name())}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		properties, required := object{}, []string{}
		addFields(t, properties, &required)
		return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	return object{} // any
}

func addFields(t reflect.Type, properties object, required *[]string) {
	for f := range fieldsOf(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			inner := schemaOf(f.Type)
			maps.Copy(properties, inner["properties"].(object))
			*required = append(*required, inner["required"].([]string)...)
			continue
		}
		properties[name] = schemaOf(f.Type)
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
		}
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}
