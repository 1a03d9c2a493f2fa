"""The words that hold sentences together, by language: articles, prepositions, pronouns, auxiliaries, question words.

They serve twice: to tell languages apart, and to count for less in a question. Keys are ISO 639 codes.
"""

STOPWORDS = {
    "en": (
        "a an the and or but if of at by for with about to from in on as is am are was were be been being have"
        " has had do does did will would could should can may might must shall i me my mine you your yours he him"
        " his she her hers it its we us our ours they them their theirs this that these those what which who whom"
        " whose when where why how there here not no so than then too very just also into over after before any"
        " some such s t d ll m re ve don doesn didn isn aren wasn weren hasn haven won wouldn couldn shouldn many"
        " much"
    ),
    "de": (
        "der die das den dem des ein eine einen einem einer eines und oder aber wenn als wie ist sind war waren"
        " wird werden wurde wurden worden hat haben hatte hatten sein seine seinen seiner ihr ihre ihren ihrer ich"
        " du er sie es wir mich mir dich dir sich uns euch ihm ihn ihnen mein meine meinen dein deine unser nicht"
        " kein keine zu zum zur mit von vom bei nach aus auf an am in im für über unter durch um vor bis seit ohne"
        " gegen was wer wen wem wessen wann wo warum weshalb wieso wohin woher welche welcher welches welchen"
        " welchem dass ob denn dann da so auch noch nur schon sehr kann können konnte muss soll will man dieser"
        " diese dieses diesem diesen viele viel"
    ),
    "fr": (
        "le la les l un une des du de d et ou mais si que qu qui quoi dont où quand comment pourquoi combien quel"
        " quelle quels quelles est sont était étaient être été a ont avait avaient avoir ai as avons avez je j tu"
        " il elle on nous vous ils elles me te se lui leur leurs y en ne pas plus à au aux dans par pour sur sous"
        " avec sans chez vers entre ce cet cette ces mon ma mes ton ta tes son sa ses notre nos votre vos comme"
        " aussi très fait"
    ),
    "es": (
        "el la los las lo un una unos unas de del y e o u pero si que qué quién quiénes cuál cuáles cuándo cuanto"
        " cuánto cuántos cuánta cuántas cómo dónde por para con sin sobre entre desde hasta hacia a al en es son"
        " era eran fue fueron ser sido está están estaba estar ha han había haber hay se me te le les nos su sus"
        " mi mis tu tus yo tú él ella ellos ellas nosotros usted ustedes no ni como más muy ya también este esta"
        " estos estas ese esa eso esto cual"
    ),
    "it": (
        "il lo la i gli le l un uno una di del dello della dei degli delle dell d e ed o ma se che chi cui cosa"
        " quale quali quando dove come perché quanto quanti quanta quante a al allo alla ai agli alle all da dal"
        " dallo dalla dai dagli dalle dall in nel nello nella nei negli nelle nell su sul sulla sui sulle con per"
        " tra fra è sono era erano essere stato stata stati fu furono ha hanno aveva avere si mi ti ci vi ne io tu"
        " lui lei noi voi loro suo sua suoi sue mio mia non più anche molto questo questa questi queste quello"
        " quella c"
    ),
    "pt": (
        "o a os as um uma uns umas de do da dos das e ou mas se que quem qual quais quando onde como por porque"
        " quanto quantos quantas para pra pelo pela pelos pelas com sem sobre entre desde até em no na nos nas ao"
        " à aos às num numa é são era eram foi foram ser sido está estão estava estar tem têm tinha ter há me te"
        " lhe lhes eu tu ele ela eles elas nós você vocês seu sua seus suas meu minha meus minhas não nem mais"
        " muito já também este esta estes estas esse essa isso isto aquele"
    ),
    "ro": (
        "un o unei unui unor al a ai ale și sau dar dacă că ce cine care căror cărui cărei cui când unde cum cât"
        " câți câte câtă de din la în într pe cu fără pentru prin spre sub între până după despre este e sunt era"
        " erau fost fi au am ați avea are avut se mă te îl îi le ne vă lui ei lor eu tu el ea noi voi ele său sa"
        " săi sale meu mea nu mai foarte acest această acești aceste acel acea cel cea cei cele ca fie"
    ),
    "nl": (
        "de het een en of maar als dat die dit deze wat wie waar wanneer waarom hoe welke welk hoeveel is zijn"
        " was waren wordt worden werd werden geworden heeft hebben had hadden ik jij je hij zij ze we wij jullie u"
        " mij me jou hem haar ons hun hen mijn jouw niet geen te om van voor met op in aan bij uit naar over door"
        " tot onder tegen zonder er ook nog wel dan dus zo zeer kan kunnen kon moet zal zou"
    ),
    "sv": (
        "en ett den det de och eller men om att som är var vara varit blir blev har hade jag du han hon vi ni mig"
        " dig sig honom henne oss er dem min mitt mina din ditt sin sitt sina hans hennes deras vår inte ingen"
        " inget i på av för med till från vid hos under över efter utan mot mellan vad vem vilken vilket vilka när"
        " hur varför här där så också mycket kan ska skulle denna detta dessa"
    ),
    "da": (
        "en et den det de og eller men om at som er var være været bliver blev har havde jeg du han hun vi i mig"
        " dig sig ham hende os jer dem min mit mine din dit sin sit sine hans hendes deres vores ikke ingen på af"
        " for med til fra ved hos under over efter uden mod mellem hvad hvem hvilken hvilket hvilke hvornår hvor"
        " hvordan hvorfor her der så også meget kan skal skulle denne dette disse"
    ),
    "no": (
        "en et ei den det de og eller men om at som er var være vært blir ble har hadde jeg du han hun vi dere"
        " meg deg seg ham henne oss dem min mitt mine din ditt sin sitt sine hans hennes deres vår ikke ingen på"
        " av for med til fra ved hos under over etter uten mot mellom hva hvem hvilken hvilket hvilke når hvor"
        " hvordan hvorfor her der så også veldig kan skal skulle denne dette disse"
    ),
    "fi": (
        "ja tai mutta jos kun että joka jotka jonka mikä mitä mitkä kuka ketkä kenen ketä missä mistä mihin"
        " milloin miksi miten kuinka onko on ovat oli olivat olla ollut ole ei eivät en et emme minä sinä hän me"
        " te he minun sinun hänen meidän heidän se ne tämä nämä tuo sen sitä siitä niin myös vain kuin sekä hyvin"
    ),
    "hu": (
        "a az egy és vagy de ha hogy mint aki ami amely akik amelyek ki mi mit kit mikor hol hová honnan miért"
        " hogyan milyen melyik mennyi hány van vannak volt voltak lesz lenne lett nem sem is csak már még én te ő"
        " ti ők engem téged őt minket nekem neki ez azt ezt ezek azok ebben abban meg el be fel le"
    ),
    "tr": (
        "ve veya ya da de ama fakat ile için gibi kadar göre sonra önce bu şu o bir ne nedir kim kimdir kimin"
        " hangi hangisi nerede nereye nereden zaman nasıl neden niçin kaç mi mı mu mü midir mıdır var yok değil"
        " olan olarak oldu olduğu idi ise ki ben sen biz siz onlar benim senin onun bizim her çok daha en hem hiç"
        " diye bunu buna bunun tarafından"
    ),
    "pl": (
        "i oraz lub albo ale jeśli że żeby który która które których którym co kto kogo czyj kiedy gdzie skąd"
        " dokąd dlaczego jak jaki jaka jakie ile czy jest są był była było były być będzie ma mają miał nie się w"
        " we z ze na do od po za przez dla o u przy pod nad przed między ja ty on ona ono my wy oni mój moja moje"
        " twój jego jej ich nasz to ten ta te tego tej tym tych już tylko też także bardzo"
    ),
    "cs": (
        "a i nebo ale jestli že aby který která které kterých co kdo koho čí kdy kde kam odkud proč jak jaký jaká"
        " jaké kolik je jsou byl byla bylo byli být bude má mají měl ne se si v ve z ze na do od po za pro o u při"
        " pod nad před mezi já ty on ona ono my vy oni můj moje tvůj jeho její jejich náš to ten ta toho té tom"
        " těch už jen také velmi"
    ),
    "ca": (
        "el la els les l un una uns unes de del dels d i o però si que què qui quin quina quins quines quan on"
        " com per perquè quant quants a al als en amb sense sobre entre des fins és són era eren ser estat està ha"
        " han havia haver hi es em et ens us seu seva seus seves meu meva no ni més molt també aquest aquesta"
        " aquests"
    ),
    "id": (
        "yang dan atau tetapi tapi jika kalau bahwa di ke dari pada untuk dengan oleh dalam sebagai tentang"
        " antara adalah ialah itu ini tersebut apa siapa mana kapan bagaimana mengapa kenapa berapa dimana apakah"
        " ada tidak bukan telah sudah akan sedang dapat bisa juga saya aku kamu anda dia ia kami kita mereka nya"
        " para lebih sangat"
    ),
    "tl": (
        "ang ng nang sa si ni kay mga na ay at o pero kung dahil kapag nung noong para ba po naman lang lamang"
        " din rin daw raw pa nga ito iyon yun yung yan iyan dito doon diyan ako ko akin aking ikaw ka mo iyo iyong"
        " siya niya kanya kanyang kami namin tayo natin kayo ninyo sila nila kanila isang may mayroon meron wala"
        " walang hindi huwag ano anong sino sinong kailan saan bakit paano alin ilan ilang gaano maaari maaaring"
        " dapat gusto nais kong akong mong"
    ),
    "jv": (
        "lan utawa nanging yen menawa sing kang ing nang menyang saka kanggo karo dening kaya minangka yaiku iku"
        " iki kuwi kasebut apa sapa endi ngendi kapan kepriye piye kenapa pira ana ora dudu wis arep bakal lagi"
        " bisa uga aku kowe dheweke kita padha para luwih banget saben"
    ),
    "su": (
        "jeung sareng atawa tapi lamun nu anu di ka ti dina kana tina pikeun ku keur jadi salaku nyaeta éta eta"
        " ieu tersebut naon saha mana iraha kumaha naha sabaraha aya teu henteu lain geus parantos bakal tiasa"
        " bisa ogé oge kuring anjeun manéhna maranéhna urang para leuwih pisan"
    ),
    "vi": (
        "và hoặc nhưng nếu thì mà là của ở trong ngoài trên dưới cho với từ đến về bởi do vì tại để khi như được"
        " bị đã đang sẽ có không này đó kia ấy những các một mỗi gì ai nào đâu sao bao nhiêu thế tôi bạn anh chị"
        " họ nó chúng ta cái con rất cũng"
    ),
    "ru": (
        "и или но а если что чтобы как когда где куда откуда почему зачем кто кого кому кем чей чья какой какая"
        " какое какие каких который которая которое которые которых которой сколько в во на с со к ко по за из от"
        " до у о об для при под над через между без это этот эта эти этого этой тот та то те был была было были"
        " быть есть не ни ли бы же я ты он она оно мы вы они меня мне тебя его ему её ей их им нас нам мой моя мои"
        " твой свой своя свои так также уже ещё только очень"
    ),
    "el": (
        "ο η το οι τα τον την τη του της των τους τις ένας μία μια ένα και ή αλλά αν ότι που πως να θα σε στο στη"
        " στην στον στους στις στα από με για ως κατά προς μετά πριν χωρίς είναι ήταν έχει έχουν είχε είχαν δεν"
        " μην μη τι ποιος ποια ποιο ποιοι ποιες ποιον ποιων πότε πού γιατί πόσο πόσοι πόσα πόσες εγώ εσύ αυτός"
        " αυτή αυτό αυτοί αυτά μου σου μας σας όπως επίσης πολύ"
    ),
    "ar": (
        "في من على إلى عن مع أو و ثم لكن إن أن إذا لو كان كانت كانوا يكون تكون هو هي هم هذا هذه ذلك تلك هؤلاء"
        " الذي التي الذين ما ماذا متى أين كيف لماذا لم لن لا كم أي أية هل قد كل بعض عند عندما بين بعد قبل حتى منذ"
        " خلال أنا أنت نحن تم كما ب ل أيضا حيث غير"
    ),
    "fa": (
        "و در به از که این آن با را برای تا بر یا اما اگر است بود شد شده هست هستند بودند می نمی ها های چه چی کی"
        " کجا چرا چگونه چطور چند کدام من تو او ما شما آنها خود هم نیز یک دو هر"
    ),
    "hi": (
        "का की के को में से पर ने और या लेकिन अगर कि जो यह वह ये वे इस उस इन उन इसके उसके है हैं था थी थे हो होता"
        " होती होते हुआ हुई हुए गया गई गए कर करने करता किया लिए साथ तक द्वारा क्या कौन किस किसने किसको किसका कब"
        " कहाँ कहां क्यों कैसे कितना कितने कितनी कौनसा नहीं न भी ही तो मैं तुम आप हम मेरा अपने अपनी एक बहुत"
    ),
}
