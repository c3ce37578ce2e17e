{{/* The prefix of every name. One that is cut would be the same for several releases. */}}
{{- define "hawsepipe.prefix" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $made := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- $prefix := default $made .Values.fullnameOverride -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$" $prefix) -}}
{{- fail (printf "the release %s gives objects the prefix %q, which must begin with a letter and have at most 40 characters, a-z, 0-9 and -: set fullnameOverride" .Release.Name $prefix) -}}
{{- end -}}
{{- $prefix -}}
{{- end -}}

{{/* The name of the operator's Deployment, roles and Lease. */}}
{{- define "hawsepipe.operator" -}}
{{- include "hawsepipe.prefix" . }}-operator
{{- end -}}

{{- define "hawsepipe.demo" -}}
{{- include "hawsepipe.prefix" . }}-demo
{{- end -}}

{{- define "hawsepipe.serviceAccount" -}}
{{- if eq .Values.serviceAccount.name "default" -}}
{{- fail "serviceAccount.name is default, the account of every pod of the namespace that names none: name one that the operator alone has" -}}
{{- end -}}
{{- default (include "hawsepipe.operator" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "hawsepipe.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Labels of every object. */}}
{{- define "hawsepipe.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object: (list $ NAME [DICT]); DICT may have labels, annotations, namespace, clusterWide. */}}
{{- define "hawsepipe.metadata" -}}
{{- $root := index . 0 -}}
{{- $more := dict -}}
{{- if gt (len .) 2 }}{{ $more = index . 2 }}{{ end -}}
{{- $annotations := deepCopy $root.Values.commonAnnotations -}}
{{- with $more.annotations }}{{ $annotations = merge (deepCopy .) $annotations }}{{ end -}}
metadata:
  name: {{ index . 1 }}
  {{- if not $more.clusterWide }}
  namespace: {{ default $root.Release.Namespace $more.namespace }}
  {{- end }}
  labels:
    {{- $labels := include "hawsepipe.labels" $root | fromYaml -}}
    {{- with $more.labels }}{{ $labels = merge (deepCopy .) $labels }}{{ end -}}
    {{- toYaml $labels | nindent 4 }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "hawsepipe.image" -}}
{{- $image := .Values.image -}}
{{- $registry := default $image.registry (.Values.global).imageRegistry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{- define "hawsepipe.gatewayImage" -}}
{{- default (include "hawsepipe.image" .) .Values.gatewayImage.reference -}}
{{- end -}}

{{- define "hawsepipe.pullSecrets" -}}
{{- with concat .Values.imagePullSecrets (default list (.Values.global).imagePullSecrets) }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What Pod Security `restricted` asks of a pod, and of a container. */}}
{{- define "hawsepipe.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  {{- if not (.Values.openshift).enabled }}
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "hawsepipe.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* A binding to the operator's account: (list $ KIND-OF-ROLE NAME). */}}
{{- define "hawsepipe.bindTo" -}}
{{- $root := index . 0 -}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ index . 1 }}, name: {{ index . 2 }}}
subjects:
- {kind: ServiceAccount, name: {{ include "hawsepipe.serviceAccount" $root }}, namespace: {{ $root.Release.Namespace }}}
{{- end -}}

{{/* Fails where the operator does not watch the namespace: (list $ VALUE NAMESPACE), for what is made by VALUE. */}}
{{- define "hawsepipe.mustWatch" -}}
{{- $watched := (index . 0).Values.watchNamespaces -}}
{{- if and $watched (not (has (index . 2) $watched)) -}}
{{- fail (printf "%s makes objects in the namespace %s, which is not among watchNamespaces: add it there" (index . 1) (index . 2)) -}}
{{- end -}}
{{- end -}}
