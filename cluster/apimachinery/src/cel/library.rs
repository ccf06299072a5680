//! The functions that rules may call, as the type checker sees them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::Type;

pub(super) struct Overload {
    pub id: String,
    /// Called as `a.f(b)`; the target is then the first argument.
    pub member: bool,
    pub args: Vec<Type>,
    pub result: Type,
}

pub(super) static FUNCTIONS: LazyLock<HashMap<String, Vec<Overload>>> = LazyLock::new(build);

/// Names that stand for a type.
pub(super) fn type_of_name(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(None),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        "kubernetes.Quantity" => Type::Struct("kubernetes.Quantity"),
        "kubernetes.URL" => Type::Struct("kubernetes.URL"),
        "kubernetes.Semver" => Type::Struct("kubernetes.Semver"),
        "kubernetes.NamedFormat" => Type::Struct("kubernetes.NamedFormat"),
        _ => return None,
    })
}

/// Function, overload, `m`ember or `g`lobal, arguments, result.
const SIGNATURES: &str = "
_?_:_ conditional g bool,A,A A
_&&_ logical_and g bool,bool bool
_||_ logical_or g bool,bool bool
!_ logical_not g bool bool
@not_strictly_false not_strictly_false g bool bool
_==_ equals g A,A bool
_!=_ not_equals g A,A bool
_+_ add_bytes g bytes,bytes bytes
_+_ add_double g double,double double
_+_ add_duration_duration g duration,duration duration
_+_ add_duration_timestamp g duration,timestamp timestamp
_+_ add_timestamp_duration g timestamp,duration timestamp
_+_ add_int64 g int,int int
_+_ add_list g list(A),list(A) list(A)
_+_ add_string g string,string string
_+_ add_uint64 g uint,uint uint
_/_ divide_double g double,double double
_/_ divide_int64 g int,int int
_/_ divide_uint64 g uint,uint uint
_%_ modulo_int64 g int,int int
_%_ modulo_uint64 g uint,uint uint
_*_ multiply_double g double,double double
_*_ multiply_int64 g int,int int
_*_ multiply_uint64 g uint,uint uint
-_ negate_double g double double
-_ negate_int64 g int int
_-_ subtract_double g double,double double
_-_ subtract_duration_duration g duration,duration duration
_-_ subtract_int64 g int,int int
_-_ subtract_timestamp_duration g timestamp,duration timestamp
_-_ subtract_timestamp_timestamp g timestamp,timestamp duration
_-_ subtract_uint64 g uint,uint uint
_[_] index_list g list(A),int A
_[_] index_map g map(A,B),A B
_[_] optional_list_index_int g optional(list(V)),int optional(V)
_[_] optional_map_index_value g optional(map(K,V)),K optional(V)
_[?_] list_optindex_optional_int g list(V),int optional(V)
_[?_] optional_list_optindex_optional_int g optional(list(V)),int optional(V)
_[?_] map_optindex_optional_value g map(K,V),K optional(V)
_[?_] optional_map_optindex_optional_value g optional(map(K,V)),K optional(V)
_?._ select_optional_field g dyn,string optional(V)
@in in_list g A,list(A) bool
@in in_map g A,map(A,B) bool
size size_bytes g bytes int
size bytes_size m bytes int
size size_list g list(A) int
size list_size m list(A) int
size size_map g map(A,B) int
size map_size m map(A,B) int
size size_string g string int
size string_size m string int
type type g A type(A)
bool bool_to_bool g bool bool
bool string_to_bool g string bool
bytes bytes_to_bytes g bytes bytes
bytes string_to_bytes g string bytes
double double_to_double g double double
double int64_to_double g int double
double string_to_double g string double
double uint64_to_double g uint double
duration duration_to_duration g duration duration
duration string_to_duration g string duration
dyn to_dyn g A dyn
int int64_to_int64 g int int
int double_to_int64 g double int
int duration_to_int64 g duration int
int string_to_int64 g string int
int timestamp_to_int64 g timestamp int
int uint64_to_int64 g uint int
string string_to_string g string string
string bool_to_string g bool string
string bytes_to_string g bytes string
string double_to_string g double string
string duration_to_string g duration string
string int64_to_string g int string
string timestamp_to_string g timestamp string
string uint64_to_string g uint string
string ip_to_string g ip string
string cidr_to_string g cidr string
timestamp timestamp_to_timestamp g timestamp timestamp
timestamp int64_to_timestamp g int timestamp
timestamp string_to_timestamp g string timestamp
uint uint64_to_uint64 g uint uint
uint double_to_uint64 g double uint
uint int64_to_uint64 g int uint
uint string_to_uint64 g string uint
contains contains_string m string,string bool
endsWith ends_with_string m string,string bool
startsWith starts_with_string m string,string bool
matches matches g string,string bool
matches matches_string m string,string bool
getFullYear timestamp_to_year m timestamp int
getFullYear timestamp_to_year_with_tz m timestamp,string int
getMonth timestamp_to_month m timestamp int
getMonth timestamp_to_month_with_tz m timestamp,string int
getDayOfYear timestamp_to_day_of_year m timestamp int
getDayOfYear timestamp_to_day_of_year_with_tz m timestamp,string int
getDayOfMonth timestamp_to_day_of_month m timestamp int
getDayOfMonth timestamp_to_day_of_month_with_tz m timestamp,string int
getDate timestamp_to_day_of_month_1_based m timestamp int
getDate timestamp_to_day_of_month_1_based_with_tz m timestamp,string int
getDayOfWeek timestamp_to_day_of_week m timestamp int
getDayOfWeek timestamp_to_day_of_week_with_tz m timestamp,string int
getHours timestamp_to_hours m timestamp int
getHours timestamp_to_hours_with_tz m timestamp,string int
getHours duration_to_hours m duration int
getMinutes timestamp_to_minutes m timestamp int
getMinutes timestamp_to_minutes_with_tz m timestamp,string int
getMinutes duration_to_minutes m duration int
getSeconds timestamp_to_seconds m timestamp int
getSeconds timestamp_to_seconds_tz m timestamp,string int
getSeconds duration_to_seconds m duration int
getMilliseconds timestamp_to_milliseconds m timestamp int
getMilliseconds timestamp_to_milliseconds_with_tz m timestamp,string int
getMilliseconds duration_to_milliseconds m duration int
optional.of optional_of g V optional(V)
optional.ofNonZeroValue optional_ofNonZeroValue g V optional(V)
optional.none optional_none g - optional(V)
value optional_value m optional(V) V
hasValue optional_hasValue m optional(V) bool
or optional_or_optional m optional(V),optional(V) optional(V)
orValue optional_orValue_value m optional(V),V V
last list_last m list(V) optional(V)
first list_first m list(V) optional(V)
optional.unwrap optional_unwrap g list(optional(V)) list(V)
unwrapOpt optional_unwrapOpt m list(optional(V)) list(V)
cel.@mapInsert @mapInsert_map_key_value g map(K,V),K,V map(K,V)
cel.@mapInsert @mapInsert_map_map g map(K,V),map(K,V) map(K,V)
charAt string_char_at_int m string,int string
indexOf string_index_of_string m string,string int
indexOf string_index_of_string_int m string,string,int int
indexOf list_a_index_of_int m list(A),A int
lastIndexOf string_last_index_of_string m string,string int
lastIndexOf string_last_index_of_string_int m string,string,int int
lastIndexOf list_a_last_index_of_int m list(A),A int
lowerAscii string_lower_ascii m string string
upperAscii string_upper_ascii m string string
replace string_replace_string_string m string,string,string string
replace string_replace_string_string_int m string,string,string,int string
split string_split_string m string,string list(string)
split string_split_string_int m string,string,int list(string)
substring string_substring_int m string,int string
substring string_substring_int_int m string,int,int string
trim string_trim m string string
format string_format m string,list(dyn) string
strings.quote strings_quote g string string
join list_join m list(string) string
join list_join_string m list(string),string string
find string_find_string m string,string string
findAll string_find_all_string m string,string list(string)
findAll string_find_all_string_int m string,string,int list(string)
sets.contains list_sets_contains_list g list(T),list(T) bool
sets.equivalent list_sets_equivalent_list g list(T),list(T) bool
sets.intersects list_sets_intersects_list g list(T),list(T) bool
slice list_slice m list(T),int,int list(T)
flatten list_flatten m list(list(T)) list(T)
flatten list_flatten_int m list(dyn),int list(dyn)
lists.range lists_range g int list(int)
reverse list_reverse m list(T) list(T)
distinct list_distinct m list(T) list(T)
url string_to_url g string url
isURL is_url_string g string bool
getScheme url_get_scheme m url string
getHost url_get_host m url string
getHostname url_get_hostname m url string
getPort url_get_port m url string
getEscapedPath url_get_escaped_path m url string
getQuery url_get_query m url map(string,list(string))
quantity string_to_quantity g string quantity
isQuantity is_quantity_string g string bool
sign quantity_sign g quantity int
isGreaterThan quantity_is_greater_than m quantity,quantity bool
isLessThan quantity_is_less_than m quantity,quantity bool
compareTo quantity_compare_to m quantity,quantity int
asApproximateFloat quantity_get_float m quantity double
asInteger quantity_get_int m quantity int
isInteger quantity_is_integer m quantity bool
add quantity_add m quantity,quantity quantity
add quantity_add_int m quantity,int quantity
sub quantity_sub m quantity,quantity quantity
sub quantity_sub_int m quantity,int quantity
ip string_to_ip g string ip
ip cidr_ip m cidr ip
isIP is_ip g string bool
ip.isCanonical ip_is_canonical g string bool
family ip_family m ip int
isUnspecified ip_is_unspecified m ip bool
isLoopback ip_is_loopback m ip bool
isLinkLocalMulticast ip_is_link_local_multicast m ip bool
isLinkLocalUnicast ip_is_link_local_unicast m ip bool
isGlobalUnicast ip_is_global_unicast m ip bool
cidr string_to_cidr g string cidr
isCIDR is_cidr g string bool
containsIP cidr_contains_ip_string m cidr,string bool
containsIP cidr_contains_ip_ip m cidr,ip bool
containsCIDR cidr_contains_cidr_string m cidr,string bool
containsCIDR cidr_contains_cidr m cidr,cidr bool
prefixLength cidr_prefix_length m cidr int
masked cidr_masked m cidr cidr
semver string_to_semver g string semver
semver string_bool_to_semver g string,bool semver
isSemver is_semver_string g string bool
isSemver is_semver_string_bool g string,bool bool
isGreaterThan semver_is_greater_than m semver,semver bool
isLessThan semver_is_less_than m semver,semver bool
compareTo semver_compare_to m semver,semver int
major semver_major m semver int
minor semver_minor m semver int
patch semver_patch m semver int
format.named format-named g string optional(format)
validate format-validate m format,string optional(list(string))
";

/// Formats that have a function of their own, such as `format.uuid()`.
pub(super) const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

fn build() -> HashMap<String, Vec<Overload>> {
    let mut functions: HashMap<String, Vec<Overload>> = HashMap::new();
    let mut add = |name: &str, id: String, member: bool, args: &str, result: &str| {
        functions.entry(name.to_owned()).or_default().push(Overload {
            id,
            member,
            args: split(args).iter().map(|a| parse(a)).collect(),
            result: parse(result),
        });
    };
    for line in SIGNATURES.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        if let [name, id, style, args, result] = parts[..] {
            add(name, id.to_owned(), style == "m", args, result);
        }
    }
    const COMPARABLE: [(&str, &str, &str); 14] = [
        ("bool", "bool", "bool"),
        ("int64", "int", "int"),
        ("int64_double", "int", "double"),
        ("int64_uint64", "int", "uint"),
        ("uint64", "uint", "uint"),
        ("uint64_double", "uint", "double"),
        ("uint64_int64", "uint", "int"),
        ("double", "double", "double"),
        ("double_int64", "double", "int"),
        ("double_uint64", "double", "uint"),
        ("string", "string", "string"),
        ("bytes", "bytes", "bytes"),
        ("timestamp", "timestamp", "timestamp"),
        ("duration", "duration", "duration"),
    ];
    for (function, prefix) in [
        ("_<_", "less"),
        ("_<=_", "less_equals"),
        ("_>_", "greater"),
        ("_>=_", "greater_equals"),
    ] {
        for (suffix, left, right) in COMPARABLE {
            add(
                function,
                format!("{prefix}_{suffix}"),
                false,
                &format!("{left},{right}"),
                "bool",
            );
        }
    }
    for t in [
        "int",
        "uint",
        "double",
        "bool",
        "duration",
        "timestamp",
        "string",
        "bytes",
    ] {
        let list = format!("list({t})");
        for (function, id, result) in [
            ("isSorted", format!("list_{t}_is_sorted_bool"), "bool"),
            ("max", format!("list_{t}_max_{t}"), t),
            ("min", format!("list_{t}_min_{t}"), t),
            ("sort", format!("list_{t}_sort"), list.as_str()),
        ] {
            add(function, id, true, &list, result);
        }
        let id = format!("list_{t}_sortByAssociatedKeys");
        add(
            "@sortByAssociatedKeys",
            id,
            true,
            &format!("list(T),{list}"),
            "list(T)",
        );
    }
    for t in ["int", "uint", "double", "duration"] {
        add("sum", format!("list_{t}_sum_{t}"), true, &format!("list({t})"), t);
    }
    for format in FORMATS {
        let name = format!("format.{format}");
        add(&name, name.clone(), false, "-", "format");
    }
    functions
}

/// Splits at commas outside of brackets.
fn split(args: &str) -> Vec<&str> {
    if args == "-" {
        return Vec::new();
    }
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in args.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&args[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&args[start..]);
    parts
}

fn parse(text: &str) -> Type {
    if let Some((outer, inner)) = text.strip_suffix(')').and_then(|t| t.split_once('(')) {
        let inner: Vec<Arc<Type>> = split(inner).iter().map(|t| Arc::new(parse(t))).collect();
        return match (outer, &inner[..]) {
            ("list", [item]) => Type::List(item.clone()),
            ("map", [key, value]) => Type::Map(key.clone(), value.clone()),
            ("optional", [inner]) => Type::Optional(inner.clone()),
            ("type", [inner]) => Type::Type(Some(inner.clone())),
            _ => Type::Error,
        };
    }
    match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "url" => Type::Struct("kubernetes.URL"),
        "quantity" => Type::Struct("kubernetes.Quantity"),
        "semver" => Type::Struct("kubernetes.Semver"),
        "format" => Type::Struct("kubernetes.NamedFormat"),
        other => match other.chars().next() {
            Some(c) if other.len() == 1 => Type::Param(c),
            _ => Type::Error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        assert!(FUNCTIONS.len() > 90);
        for overload in FUNCTIONS.values().flatten() {
            for t in overload.args.iter().chain([&overload.result]) {
                assert!(!t.to_string().contains("error"), "{}", overload.id);
            }
        }
    }
}
