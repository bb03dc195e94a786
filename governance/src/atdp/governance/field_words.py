"""Words of which the names of fields consist, so that a path of an audit record may show them.

The list holds common words of interfaces and documents. Words that are also first names or names of
cities are left out (`mark`, `will`, `mobile`); such a key is shown by its position.
"""

from typing import Final

_WORDS: Final = """
a abilities ability about accept accepted access account accounts accuracy action actions active
actor add added address addresses after age agent agents ai alert alerts algorithm alias all allow
allowed alternatives amount amounts analysis and annotation annotations answer answers api app
application applied approval approved archive area arg args argument arguments array article asset
assets assigned assignee assistant at attachment attachments attempt attempts attribute attributes
audio audit auth author authorization available average avg back backend background badge balance
bank bar base base64 baseline basis batch before begin benchmark best billing binary birth block
body bonus booking bookings bool boolean box branch brand breakdown browser bucket budget buffer
build bundle business button buyer by byte bytes cache cached calendar call callback called caller
calls campaign cancel cancellation cancelled candidate candidates capacity caption capture card
cards cart catalog categories category cause cell change changed changes channel channels char
character characters charge charges chart chat check checked checkout checks checksum child children
choice choices chunk chunks citation citations cities city class classes classification clause
client clients clone close closed cluster code codes collection color colors column columns command
commands comment comments commit commits company compare complete completed completion completions
component components compute condition conditions confidence config configuration confirmed conflict
connection consent console constraint constraints contact contacts container contains content
contents context contract control conversation conversations cookie cookies coordinates copy core
correct cost costs count counter countries country coupon create created creation creator credential
credentials credit criteria critical currency current cursor custom customer customers cwd daily
dashboard data database dataset datasets date dates day days db debit debug decision decisions
deduction default defaults definition definitions delay delete deleted delivered delivery delta
demand department dependencies deploy deployment deposit depth desc description design destination
detail details detected device devices diff difference digits dimension dimensions dir directory
disabled discount discounts display distance district document documents domain done download draft
driver due duration edges edit editor effect effective element elements email emails embedding
embeddings employee employees enabled encoded encoding end ended endpoint engine entities entity
entries entry enum env environment error errors estimate estimated eval evaluation event events
evidence example examples exception exchange exec executable execution exists exit expected expense
expenses experiment expiration expires expiry explanation export exported expression extension extra
factor fail failed failure failures family fax feature features fee feedback fees fetch field fields
file filename files filter filters final finance finding findings fingerprint finish finished first
flag flags flight flights flow folder followers font format formatted found fraction frame framework
frequency from fulfillment fulfillments full function functions gateway gender generated generation
gift given global goal grade gross group groups guest guests guideline guidelines handle handler
hash hashes head header headers headline health height hidden highlights hint hints history home
hook hooks host hosts hotel hour hours house html http https icon id identifier identity ids image
images import in inbox index indices info information initial inline input inputs insert inserted
instance instances instruction instructions insurance int integer intent interactions interface
interval invalid inventory invoice invoices io ip issue issues item items iteration iterations job
jobs json key keyword keywords kind kwargs label labels language last latency latest latitude layout
lead leads length level levels license limit limits line lines link links list listing llm load
local locale location locations lock log login logprobs logs long longitude loss mac machine mail
main manager manifest manufacturer margin mask master match matched matches material max maximum
mean measure media median member members memory menu merchant merge message messages meta metadata
method methods metric metrics middle mime min minimum minute minutes missing mode model models
modified module modules month monthly months name names namespace native nested net network new next
node nodes none normalized note notes notification notifications null num number numbers object
objects observation observations of offer offers office offset old on online only open opened
operation operations operator opinion option optional options or order ordered orders org
organization origin original other out outcome output outputs overall owner owners package packages
page pages pair pairs param parameter parameters params parent parents part partial participants
parts party pass passed passenger passengers passport password passwords patch path paths patient
pattern payload payment payments pending per percent percentage performance period permission
permissions person persona phase phone phones photo photos pid pin pipeline place places plan plans
platform player players point points policies policy pool port position positions post postal posts
prediction predictions preference preferences prefix premium preset preview previous price prices
pricing primary print priority private probability problem process processed processor product
products profile profiles profit program progress project projects promotion prompt prompts
properties property protocol provider providers public publish published publisher purchase
purchases purpose quality quantity queries query question questions queue quota range rank rate
rates rating ratings ratio raw read reason reasoning reasons receipt received receiver recipient
recipients record records recovery redirect ref reference references refund refunds refusal region
regions register registration related relation relations release relevant remaining remarks remote
removed replace replied reply repo report reports repository request requested requestor requests
required requirement requirements reservation reservations reset resolution resolved resource
resources response responses result results retries retrieval retry return returncode returned
returns revenue review reviewer reviews revision reward rewards risk role roles root route router
routing row rows rule rules run runs runtime salary sale sales sample samples save saved scale
scenario schedule scheduled schema scope score scores screen script search seat second secondary
seconds secret secrets section sections security segment segments select selected seller send sender
sent sequence serial series server servers service services session sessions set settings severity
sex shape share shared sheet shift ship shipment shipments shipped shipping short signature size
sizes sku slot slug snapshot snippet social source sources span spans spec specific speech speed
split sql ssn stack staff stage standard start started state statement states station stats status
stderr stdin stdout step steps stock stop storage store stored stores strategy stream street string
strings structure style sub subject subjects submission submit submitted subscription subtotal
success suffix suggestion suggestions sum summary supplier support surname symbol sync system
systems tab table tables tag tags target targets task tasks tax team teams telephone temp
temperature template templates term termination terms test tests text texts theme thought thread
threshold thresholds thumbnail ticket tickets tier time timeline timeout times timestamp timestamps
timezone tip title titles to todo token tokens tool tools top topic topics total totals trace traces
tracking train training trajectory transaction transactions transcript transfer transport trial
trials trigger true turn turns type types unit units unknown until update updated updates upload
uploaded uri url urls usage use used user username users utc uuid val valid validation value values
variable variables variant variants vehicle vendor verdict verified version versions video view
views visible visit visits voice volume vote votes wait wallet warehouse warning warnings warranty
web website week weekly weeks weight weights width window windows with word words worker workflow
workspace write written year yearly years zip zone zoom
"""

FIELD_WORDS: Final = frozenset(_WORDS.split())
