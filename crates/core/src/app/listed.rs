//! Words that may be shown wherever they stand, because a protocol fixes them or because they name a
//! widespread program.

use hashbrown::HashSet;
use std::sync::OnceLock;

/// Maximum length of a listed word, bytes.
pub(super) const WORD_MAX: usize = 32;

/// A list of words, compared without case.
pub(crate) struct List {
    /// The words in small letters, separated by blanks.
    text: &'static str,
    words: OnceLock<HashSet<&'static [u8]>>,
}

impl List {
    pub(super) const fn new(text: &'static str) -> Self {
        Self { text, words: OnceLock::new() }
    }

    /// The words, in small letters.
    pub(super) fn words(&self) -> impl Iterator<Item = &'static str> {
        self.text.split_ascii_whitespace()
    }

    /// Returns whether the list has `word`.
    pub(crate) fn has(&self, word: &[u8]) -> bool {
        let mut lower = [0; WORD_MAX];
        let Some(lower) = lower.get_mut(..word.len()) else { return false };
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        let split = || self.words().map(str::as_bytes).collect();
        self.words.get_or_init(split).contains(&*lower)
    }
}

/// Methods of HTTP: the registry of IANA, UPnP (SSDP, GENA), and caches.
pub(crate) static METHODS: List = List::new(
    "\
     acl ban baseline-control bind checkin checkout connect copy delete get head label link lock \
     m-search merge mkactivity mkcalendar mkcol mkredirectref mkworkspace move notify options \
     orderpatch patch post pri propfind proppatch purge put query rebind report search subscribe \
     trace unbind uncheckout unlink unlock unsubscribe update updateredirectref version-control",
);

/// First words of SQL statements (PostgreSQL 17, MySQL 9, SQLite 3).
pub(super) static SQL_VERBS: List = List::new(
    "\
     abort alter analyse analyze attach begin binlog cache call change check checkpoint checksum \
     clone close cluster comment commit copy create deallocate declare delete desc describe \
     detach discard do drop end execute explain fetch flush get grant handler help import insert \
     install kill listen load lock merge move notify open optimize pragma prepare purge reassign \
     refresh reindex release rename repair replace reset resignal restart revoke rollback \
     savepoint security select set show shutdown signal start stop table truncate uninstall \
     unlisten unlock update upsert use vacuum values with xa",
);

/// Commands of Redis 8 and Valkey 8, of replication and of their modules (redis.io, "Commands").
pub(crate) static REDIS_COMMANDS: List = List::new(
    "\
     acl append asking auth bf.add bf.card bf.exists bf.info bf.insert bf.madd bf.mexists \
     bf.reserve bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove blmpop \
     blpop brpop brpoplpush bzmpop bzpopmax bzpopmin cf.add cf.addnx cf.count cf.del cf.exists \
     cf.insert cf.reserve client cluster cms.incrby cms.query command config copy dbsize debug \
     decr decrby del delex digest discard dump echo eval eval_ro evalsha evalsha_ro exec exists \
     expire expireat expiretime failover fcall fcall_ro flushall flushdb ft.aggregate ft.alter \
     ft.create ft.cursor ft.dropindex ft.info ft.search ft.sugadd ft.sugget function geoadd \
     geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro \
     geosearch geosearchstore get getbit getdel getex getrange getset graph.query hdel hello \
     hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys \
     hlen hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset \
     hsetex hsetnx hstrlen httl hvals incr incrby incrbyfloat info json.arrappend json.arrlen \
     json.del json.get json.merge json.mget json.mset json.numincrby json.objkeys json.set \
     json.strlen json.type keys lastsave latency lcs lindex linsert llen lmove lmpop lolwut lpop \
     lpos lpush lpushx lrange lrem lset ltrim memory mget migrate module monitor move mset msetex \
     msetnx multi object persist pexpire pexpireat pexpiretime pfadd pfcount pfdebug pfmerge \
     pfselftest ping psetex psubscribe psync pttl publish pubsub punsubscribe quit randomkey \
     readonly readwrite rename renamenx replconf replicaof reset restore restore-asking role rpop \
     rpoplpush rpush rpushx sadd save scan scard script sdiff sdiffstore select sentinel set \
     setbit setex setnx setrange shutdown sinter sintercard sinterstore sismember slaveof slowlog \
     smembers smismember smove sort sort_ro spop spublish srandmember srem sscan ssubscribe \
     strlen subscribe substr sunion sunionstore sunsubscribe swapdb sync tdigest.add time \
     topk.add touch ts.add ts.create ts.get ts.incrby ts.info ts.madd ts.mget ts.mrange ts.range \
     ttl type unlink unsubscribe unwatch vadd vcard vdim vemb vgetattr vinfo vlinks vrandmember \
     vrem vsetattr vsim wait waitaof watch xack xackdel xadd xautoclaim xcfgset xclaim xdel \
     xdelex xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim zadd zcard \
     zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore \
     zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem \
     zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore \
     zrevrank zscan zscore zunion zunionstore",
);

/// Second words of the commands of Redis that have one.
pub(crate) static REDIS_SUBCOMMANDS: List = List::new(
    "\
     addslots addslotsrange bumpepoch caching cat ckquorum consumers count count-failure-reports \
     countkeysinslot create createconsumer delconsumer delete delslots delslotsrange deluser \
     destroy docs doctor dryrun dump encoding exists failover flush flushconfig flushslots forget \
     freq genpass get getkeys getkeysandflags getkeysinslot getname getredir getuser graph groups \
     help histogram history id idletime info info-cache is-master-down-by-addr jmap keyslot kill \
     latest len links list load loadex log malloc-stats master masters meet migration monitor \
     myid myshardid no-evict no-touch nodes numpat numsub object pause pending-scripts purge \
     refcount remove replicas replicate reply reset resetstat restore rewrite save sentinels set \
     set-config-epoch setid setinfo setname setslot setuser shardchannels shardnumsub shards show \
     simulate-failure slaves sleep slot-stats slots stats stream tracking trackinginfo unblock \
     unload unpause usage users whoami",
);

/// Widespread programs, as their product tokens begin (RFC 9110 §10.1.5, §10.2.4).
pub(super) static SOFTWARE: List = List::new(
    "\
     ab aiohttp akka-http amazons3 apache apache-coyote apache-httpclient ats awselb axios \
     basehttp boto3 botocore bun caddy cheroot cherrypy chrome cloudflare cloudfront cowboy curl \
     daphne dart deno elasticsearch elb-healthchecker envoy faraday fasthttp fetch firefox gecko \
     ghz go-http-client go-resty grafana grpc-c grpc-go grpc-java-netty gunicorn guzzlehttp gws \
     h2load h2o haproxy hey httpie httpx hypercorn istio-envoy java java-http-client jdk jersey \
     jetty k6 kestrel kong kube-probe libcurl libwww-perl lighttpd litespeed locust \
     lua-resty-http microsoft-httpapi microsoft-iis mod_perl mod_ssl mod_wsgi mongrel mozilla \
     netty nginx node node-fetch node.js oha okhttp openresty openssl passenger perl php \
     postmanruntime prometheus puma pycurl python python-httpx python-requests python-urllib rack \
     reactor-netty requests restsharp ruby safari servlet simplehttp sinatra squid starlette \
     tcpwhy tengine thin tomcat tornado tornadoserver traefik ts twisted twistedweb undertow \
     undici unicorn urllib3 uvicorn varnish vegeta vert.x waitress webkit webrick werkzeug wget \
     wildfly wrk wrk2 wsgiserver",
);

/// Tokens of fields that frame messages, and schemes of targets (RFC 9110 §7.6, §7.8, §8.4, §10.1.1;
/// RFC 9112 §7).
pub(crate) static LINE_TOKENS: List = List::new(
    "100-continue br chunked close compress deflate ftp gzip h2c http http2-settings https \
     identity keep-alive te trailers upgrade websocket ws wss x-compress x-gzip zstd",
);
