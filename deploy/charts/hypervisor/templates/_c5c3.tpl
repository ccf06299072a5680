{{/* Labels of an object that belongs to one program. Takes (dict "top" . "name" NAME). */}}
{{- define "c5c3.labels" -}}
{{ include "c5c3.selector" . }}
app.kubernetes.io/part-of: c5c3
app.kubernetes.io/version: {{ .top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .top.Chart.Name .top.Chart.Version | quote }}
{{- end }}

{{/* What never changes: selectors of a Deployment cannot be changed later. */}}
{{- define "c5c3.selector" -}}
app.kubernetes.io/name: c5c3-{{ .name }}
{{- end }}

{{/* The image of every program. A digest goes before a tag. */}}
{{- define "c5c3.image" -}}
{{- $image := .Values.image -}}
{{- printf "%s/%s" (trimSuffix "/" .Values.registry) $image.name -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* Where pods come from and go to. Takes (dict "top" . "own" VALUES-OF-THE-PROGRAM). */}}
{{- define "c5c3.placement" -}}
{{- with .top.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.nodeSelector | default .top.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations | default .top.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.priorityClassName | default .top.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Account of a program and what it may do.
Takes (dict "top" . "name" NAME "cluster" RULES "namespaced" RULES "home" RULES). */}}
{{- define "c5c3.account" -}}
{{- $watched := .top.Values.watchNamespace | default "" }}
{{- $place := .top.Release.Namespace }}
{{- $everywhere := .cluster | default list }}
{{- if not $watched }}{{ $everywhere = concat $everywhere (.namespaced | default list) }}{{ end }}
apiVersion: v1
kind: ServiceAccount
metadata:
  namespace: {{ $place }}
  name: c5c3-{{ .name }}
  labels: {{- include "c5c3.labels" . | nindent 4 }}
{{- if $everywhere }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: c5c3-{{ .name }}
  labels: {{- include "c5c3.labels" . | nindent 4 }}
rules: {{- toYaml $everywhere | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: c5c3-{{ .name }}
  labels: {{- include "c5c3.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: c5c3-{{ .name }}}
subjects: [{kind: ServiceAccount, namespace: {{ $place }}, name: c5c3-{{ .name }}}]
{{- end }}
{{- if and $watched .namespaced }}
{{ include "c5c3.role" (dict "top" .top "name" .name "role" (printf "c5c3-%s-watched" .name) "place" $watched "rules" .namespaced) }}
{{- end }}
{{- if .home }}
{{ include "c5c3.role" (dict "top" .top "name" .name "role" (printf "c5c3-%s" .name) "place" $place "rules" .home) }}
{{- end }}
{{- end }}

{{- define "c5c3.role" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  namespace: {{ .place }}
  name: {{ .role }}
  labels: {{- include "c5c3.labels" . | nindent 4 }}
rules: {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  namespace: {{ .place }}
  name: {{ .role }}
  labels: {{- include "c5c3.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .role }}}
subjects: [{kind: ServiceAccount, namespace: {{ .top.Release.Namespace }}, name: c5c3-{{ .name }}}]
{{- end }}

{{/* How a program is watched from outside. Takes (dict "top" . "name" NAME "port" PORT), and "also" PORT-NAME for
another port that everybody may reach. */}}
{{- define "c5c3.monitoring" -}}
apiVersion: v1
kind: Service
metadata:
  namespace: {{ .top.Release.Namespace }}
  name: c5c3-{{ .name }}-metrics
  labels: {{- include "c5c3.labels" . | nindent 4 }}
spec:
  clusterIP: None
  selector: {{- include "c5c3.selector" . | nindent 4 }}
  ports: [{name: metrics, port: {{ .port }}, targetPort: metrics}]
{{- $monitoring := .top.Values.monitoring }}
{{- if and $monitoring.enabled (.top.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor") }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  namespace: {{ .top.Release.Namespace }}
  name: c5c3-{{ .name }}
  labels:
    {{- include "c5c3.labels" . | nindent 4 }}
    {{- with $monitoring.labels }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  selector:
    matchLabels: {{- include "c5c3.selector" . | nindent 6 }}
  endpoints: [{port: metrics, interval: {{ $monitoring.interval }}}]
{{- end }}
{{- if .top.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  namespace: {{ .top.Release.Namespace }}
  name: c5c3-{{ .name }}
  labels: {{- include "c5c3.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "c5c3.selector" . | nindent 6 }}
  policyTypes: [Ingress{{ if .top.Values.networkPolicy.egress }}, Egress{{ end }}]
  ingress:
    - ports: [{port: metrics}]
      {{- with .top.Values.networkPolicy.from }}
      from: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- with .also }}
    - ports: [{port: {{ . }}}]
    {{- end }}
  {{- with .top.Values.networkPolicy.egress }}
  egress: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The agents of a DaemonSet share one account, so a role cannot tell them apart. Their tokens name the node of
the pod. Takes (dict "top" . "name" NAME "group" API-GROUP "resources" LIST "kind" KIND). Where it is not the
objects' own name that says their node: "policy" NAME, "operations" LIST and "expression" CEL over `node`. */}}
{{- define "c5c3.own-node" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: c5c3-{{ .policy | default .name }}
  labels: {{- include "c5c3.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [{{ .group }}]
        apiVersions: ["*"]
        operations: {{- toYaml (.operations | default (list "CREATE" "UPDATE")) | nindent 10 }}
        resources: {{- toYaml .resources | nindent 10 }}
  matchConditions:
    - name: is-an-agent
      expression: request.userInfo.username == "system:serviceaccount:{{ .top.Release.Namespace }}:c5c3-{{ .name }}"
  validations:
    - expression: >-
        has(request.userInfo.extra) && "authentication.kubernetes.io/node-name" in request.userInfo.extra
        && request.userInfo.extra["authentication.kubernetes.io/node-name"].exists(node, {{ .expression | default "object.metadata.name == node" }})
      messageExpression: '"an agent writes the {{ .kind }} of its own node, and " + request.name + " is another one"'
      reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: c5c3-{{ .policy | default .name }}
  labels: {{- include "c5c3.labels" . | nindent 4 }}
spec:
  policyName: c5c3-{{ .policy | default .name }}
  validationActions: [Deny]
{{- end }}
